"""Share groups at the leaders of partitions: who has acquired which records, and until when."""
