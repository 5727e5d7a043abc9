module penstock/compat/notes

go 1.26.0
