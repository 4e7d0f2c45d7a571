"""Every statement of the event log, by name.

``$`` parameters are positional; rows are read by the names in ``COLUMNS``.
"""

# Ids as text: asyncpg makes an object of each UUID, which takes longer than the rest of the row.
_COLUMNS = """
    e.partition, e.position, {} as owner, e.session_id::text, e.seq, e.id::text, e.type, e.v, e.at,
    e.turn_id::text, e.subagent_id, e.data, e.salt, e.digest, e.hash"""
COLUMNS = _COLUMNS.format("s.owner")
# For pages of a partition: who joins them to the registry reads all of that for each page, because Postgres expects
# each row to be of another session. Null where the registry does not know the session.
_COLUMNS_OF_ANY = _COLUMNS.format(
    "(select s.owner from navi.session s where s.session_id = e.session_id)"
)

_DELTAS = "('text_delta', 'thinking_delta', 'tool_output_delta', 'model_waiting')"

# (partition, sessions that begin, slices, events): arrays of rows.
APPEND = """
    select base, fits
      from navi.append($1, $2::navi.append_session[], $3::navi.append_slice[], $4::navi.append_event[])"""

_HEAD = """
    select coalesce((select e.position from navi.event e where e.partition = $1
                      order by e.position desc limit 1), l.floor) as head,
           l.erasures {}
      from navi.log_partition l where l.partition = $1"""
HEAD_OF_PARTITION = _HEAD.format("")

# (partition, after, until, bytes): the head, and the first position with which the payloads behind ``after`` are more
# than so many bytes in all. What is not compressed is weighed without being read. The walk ends at that position, so
# that of long payloads no more are unpacked than are read then.
HEAD_AND_FULL_AT = _HEAD.format(""",
           (select weighed.position from (
              select e.position,
                     sum(case when pg_column_compression(e.data) is null then pg_column_size(e.data)
                              else octet_length(e.data::text) end)
                       over (order by e.position rows unbounded preceding) as bytes
                from navi.event e where e.partition = $1 and e.position > $2 and e.position <= $3) weighed
             where weighed.bytes > $4
             order by weighed.position limit 1) as full_at""")

# (partition, after, until): every row.
POSITIONS = f"""
    select {_COLUMNS_OF_ANY}
      from navi.event e
     where e.partition = $1 and e.position > $2 and e.position <= $3
     order by e.position"""  # noqa: S608 - constants of this module

# (partition, after, until): facts alone.
POSITIONS_OF_FACTS = f"""
    select {_COLUMNS_OF_ANY}
      from navi.event e
     where e.partition = $1 and e.position > $2 and e.position <= $3 and e.type not in {_DELTAS}
     order by e.position"""  # noqa: S608 - constants of this module

# (partition, after, until): how many rows there are, deltas too, to see that none is missing.
COUNT_POSITIONS = """
    select count(*) as rows from navi.event e
     where e.partition = $1 and e.position > $2 and e.position <= $3"""

# (partition, session, after, until, limit): $1 is known from the registry and picks the leaf.
SESSION_ROWS = f"""
    select {COLUMNS}
      from navi.event e join navi.session s using (session_id)
     where e.partition = $1 and e.session_id = $2 and e.seq > $3 and e.seq <= $4
     order by e.seq limit $5"""  # noqa: S608 - constants of this module

# The same, and (only these types, null for all; without these types).
_OF_TYPES = "($6::text[] is null or e.type = any($6)) and e.type <> all($7::text[])"
SESSION_OF_TYPES = f"""
    select {COLUMNS}
      from navi.event e join navi.session s using (session_id)
     where e.partition = $1 and e.session_id = $2 and e.seq > $3 and e.seq <= $4 and {_OF_TYPES}
     order by e.seq limit $5"""  # noqa: S608 - constants of this module

# With the same parameters: where the last ones begin, and how many there are.
LAST_OF_TYPES = f"""
    select min(seq) as first, count(*) as rows from (
      select e.seq from navi.event e
       where e.partition = $1 and e.session_id = $2 and e.seq > $3 and e.seq <= $4 and {_OF_TYPES}
       order by e.seq desc limit $5) last"""  # noqa: S608 - constants of this module

# (session): the registry's row and the last event of its own.
HEAD_OF_SESSION = """
    select s.partition, s.owner, s.forked_from, s.base_seq, s.base_hash,
           coalesce(h.position, 0) as position, coalesce(h.seq, s.base_seq) as seq,
           coalesce(h.hash, s.base_hash) as hash, l.erasures
      from navi.session s
      join navi.log_partition l using (partition)
      left join lateral (
        select e.position, e.seq, e.hash from navi.event e
         where e.partition = s.partition and e.session_id = s.session_id
         order by e.seq desc limit 1) h on true
     where s.session_id = $1"""

_SESSIONS = """
    select s.session_id::text, s.owner, s.forked_from::text, s.base_seq, s.base_hash,
           coalesce(h.seq, s.base_seq) as seq, coalesce(h.hash, s.base_hash) as hash
      from navi.session s
      left join lateral (
        select e.seq, e.hash from navi.event e
         where e.partition = s.partition and e.session_id = s.session_id
         order by e.seq desc limit 1) h on true
     where {}
     order by s.session_id"""

# The registry's rows and their last events. Sessions of which no event is left are given as well, with
# seq = base_seq.
SESSIONS = _SESSIONS.format("s.session_id = any($1::uuid[])")
NEXT_SESSIONS = f"{_SESSIONS.format('s.session_id > $1')} limit $2"

# Parameters: partition, session, message id, until.
RECEIPT = """
    select e.seq, e.v, e.data from navi.event e
     where e.partition = $1 and e.session_id = $2 and e.type = 'user_message_received'
       and e.data ->> 'message_id' = $3 and e.seq <= $4
     order by e.seq limit 1"""

# Parameters: partition, session, seqs, payloads. The count tells every node to forget what it keeps in memory.
ERASE = """
    with counted as (
      update navi.log_partition set erasures = erasures + 1 where partition = $1)
    update navi.event e set data = new.data, salt = null
      from unnest($3::bigint[], $4::json[]) as new(seq, data)
     where e.partition = $1 and e.session_id = $2 and e.seq = new.seq"""

# (partition, after, until, before, session or null): deltas that have their text, of calls that have ended.
# The end of a call stands soon behind its last delta: a short walk along the index, once a call.
# Not `data ->> 'call_id'`, which refuses a payload that says U+0000 anywhere; the id as it is quoted.
_CALL_ID = (
    r"""substring({}.data::text from '^\{{(?:"erased":true,)?"""
    r"""(?:"masked":\[(?:"(?:[^"\\]|\\.)*",?)*\],)?"call_id":("(?:[^"\\]|\\.)*")')"""
)
_PRUNABLE = f"""
    with delta as materialized (
      select e.position, e.session_id, e.seq, {_CALL_ID.format("e")} as call_id,
             octet_length(e.data::text) as bytes
        from navi.event e
       where e.partition = $1 and e.position > $2 and e.position <= $3 and e.at < $4
         and ($5::uuid is null or e.session_id = $5)
         and e.type in {_DELTAS} and e.salt is not null
    ), ended as materialized (
      select c.session_id, c.call_id
        from (select session_id, call_id, max(seq) as seq from delta group by 1, 2) c
       where exists (
         select from navi.event r
          where r.partition = $1 and r.session_id = c.session_id and r.seq > c.seq
            and r.type in ('model_replied', 'model_call_failed', 'tool_finished')
            and {_CALL_ID.format("r")} = c.call_id)
    ), chosen as materialized (select * from delta join ended using (session_id, call_id))"""  # noqa: S608 - constants of this module

_COUNT_CHOSEN = "select count(*) as deltas, coalesce(sum(bytes), 0)::bigint as bytes from chosen"
COUNT_PRUNABLE = f"{_PRUNABLE} {_COUNT_CHOSEN}"

# The payload as `domain.erasure.pruned` writes it.
PRUNE = f"""{_PRUNABLE}, counted as (
      update navi.log_partition set erasures = erasures + 1
       where partition = $1 and exists (select from chosen)
    ), done as (
      update navi.event e
         set data = ('{{"call_id":' || c.call_id || ',"pruned":true}}')::json, salt = null
        from chosen c where e.partition = $1 and e.position = c.position)
    {_COUNT_CHOSEN}"""  # noqa: S608 - constants of this module

# Facts that say a part, were erased, or tell of it; parameters: partition, after, until, owner, parts.
FIND = f"""
    select {COLUMNS}
      from navi.event e join navi.session s using (session_id)
     where e.partition = $1 and e.position > $2 and e.position <= $3 and s.owner = $4
       and e.type not in {_DELTAS}
       and (e.salt is null or e.type = 'content_erased'
            or exists (select from unnest($5::text[]) p (part) where position(p.part in e.data::text) > 0))
     order by e.position"""  # noqa: S608 - constants of this module

FORKS_OF = """
    select session_id::text from navi.session where forked_from = $1 order by session_id"""
SESSIONS_OF = "select session_id::text from navi.session where owner = $1 order by session_id"

# (partition, after, until, sessions, hashes): which of the hashes events name that are of other sessions.
TEXTS_IN_USE = """
    select distinct used[1] as hash
      from navi.event e, regexp_matches(e.data::text, '"([0-9a-f]{64})"', 'g') as used
     where e.partition = $1 and e.position > $2 and e.position <= $3
       and e.type in ('model_called', 'image_shown') and e.session_id <> all($4::uuid[])
       and used[1] = any($5::text[])"""

ENSURE_PARTITION = "select navi.ensure_partition($1)"
LOCK_PARTITIONS = "select pg_advisory_xact_lock(7000, 1)"
COUNT_PARTITIONS = "select count(*) as partitions from navi.log_partition"
LOG_ID = "select log_id from navi.log"

KEPT_TEXTS = "select sha256 from navi.text where sha256 = any($1::bytea[])"
PUT_TEXT = "insert into navi.text (sha256, content) values ($1, $2) on conflict do nothing"
GET_TEXT = "select content from navi.text where sha256 = $1"
DROP_TEXTS = "delete from navi.text where sha256 = any($1::bytea[]) returning sha256"

# (after, limit): the next texts, and whether they are what is sought.
_TEXTS = """
    select sha256, {} as found from navi.text where sha256 > $1 order by sha256 limit $2"""
DAMAGED_TEXTS = _TEXTS.format("sha256 <> sha256(content)")
# The same, and (parts).
TEXTS_WITH = _TEXTS.format(
    "not exists (select from unnest($3::bytea[]) p (part) where position(p.part in content) = 0)"
)
