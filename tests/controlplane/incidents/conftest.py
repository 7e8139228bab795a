from tests.support.web.served import away, caller, filled, reader, served

__all__ = ["away", "caller", "filled", "reader", "served"]
