from tests.support.web.served import annex, annexed, away, caller, filled, fresh, reader, served

__all__ = ["annex", "annexed", "away", "caller", "filled", "fresh", "reader", "served"]
