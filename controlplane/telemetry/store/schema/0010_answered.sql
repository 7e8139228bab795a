-- Sorted pieces made before hold the times of failed and cancelled requests among those of answered ones: they are sorted again, the newest first.
-- Until then long pages are answered out of the requests themselves.
TRUNCATE TABLE IF EXISTS {database}.ranked {on_cluster}
;
TRUNCATE TABLE IF EXISTS {database}.ranks {on_cluster}
