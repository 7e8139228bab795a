-- Long pages read rollups: the half-hour sort is gone.
DROP VIEW IF EXISTS {database}.touches {on_cluster} SYNC
;
DROP TABLE IF EXISTS {database}.touched {on_cluster} SYNC
;
DROP TABLE IF EXISTS {database}.ranked {on_cluster} SYNC
;
DROP TABLE IF EXISTS {database}.ranks {on_cluster} SYNC
