"""What pages, the REST API and postmortems say of an incident."""
