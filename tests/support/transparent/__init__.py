"""The same requests at a model server itself and through the gateway: what both ends get has to be equal, but for what is documented."""
