-- The captures that may be added up: of those that conflict only the first.
select rank, capture from captures where counted
