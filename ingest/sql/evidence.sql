-- The evidence of communication that is not an event's own: names, and the roles of streams and threads.
-- Names are the last evidence asked. A stream's role is what all of its kernels with evidence do.
-- Parameters: none; patterns come as variables (comm_kernel, comm_contradiction).
-- Creates: kernel_names(name, named, contradicted), comm_streams(device, stream), collective_threads(thread)
create table kernel_names as
select
    name,
    regexp_matches(name, getvariable('comm_kernel')) as named,
    regexp_matches(name, getvariable('comm_contradiction')) as contradicted
from (select distinct name from typed where kind = 'kernel');

create table comm_streams as
select p.device, p.stream
from physics p join (select event_id, told_collective from typed where kind = 'kernel') t using (event_id)
where told_collective or p.launch_id is not null
group by p.device, p.stream
having bool_and(told_collective or launcher_communicates);

create table collective_threads as
select distinct thread from typed where kind = 'collective' and thread is not null
except select thread from typed where kind = 'step'
