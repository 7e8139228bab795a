from tests.support.incidents.outside import pinged, sent

__all__ = ["pinged", "sent"]
