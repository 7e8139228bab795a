from tests.support.web.served import annex, annexed, fresh

__all__ = ["annex", "annexed", "fresh"]
