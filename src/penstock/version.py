"""The version of Penstock, and of the Kafka release whose protocol it speaks."""

VERSION = "0.1.0"
KAFKA_RELEASE = "4.3"
