-- Earlier builds mix the times of failed and cancelled requests with those of answered ones, so all half hours are sorted again, the newest
-- first. Until then long pages read the requests.
TRUNCATE TABLE IF EXISTS {database}.ranked {on_cluster}
;
TRUNCATE TABLE IF EXISTS {database}.ranks {on_cluster}
