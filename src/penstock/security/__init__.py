"""Who somebody is and what they may do: principals, mechanisms, rights. Pure, but for key files."""
