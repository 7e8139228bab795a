from tests.support.incidents.outside import pinged, sent
from tests.support.web.served import away, caller, filled, reader, served

__all__ = ["away", "caller", "filled", "pinged", "reader", "sent", "served"]
