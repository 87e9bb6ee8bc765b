-- Permits: how many at once, over all sessions.
-- KEYS: a hash, with a field `total:expires_us:seq:keeps` for each session, and the mark of recall.lua.
-- ARGV: limit, seq, held (-1: what is stored), want, min, need (how many of `want` somebody waits for), parts (the rest is at most
-- one part in so many of what is free), keeps (what the session keeps idle, as recall.lua says).
-- Returns: status (0, or 1 STALE), total, others, n_live, contended (as recall.lua says). Complexity: O(sessions).
--
-- What is written is absolute, held + grant, so that a repeated call changes nothing and a lost answer leaks no more than what
-- was wanted, until the session's next call. A field whose time has passed stays one more TTL as a tombstone that counts 0:
-- so long a late duplicate cannot bring it back to life.

local permits = { args = { 'limit', 'seq', 'held', 'want', 'min', 'need', 'parts', 'keeps' } }

function permits.read(op, call)
  local own
  local flat = redis.call('HGETALL', op.key)
  op.others, op.n_live, op.last, op.set, op.drop, op.status, op.idle = 0, 0, 0, {}, {}, 0, {}
  for at = 1, #flat, 2 do
    local total, expires, seq, keeps = string.match(flat[at + 1], '^(%d+):(%d+):(%d+):?(%d?)$')
    local ends = total and ends_at(tonumber(expires), call)
    local is_live = total and call.now < ends
    if not total then
      op.mark = flat[at] == 'm' and flat[at + 1] or nil
    elseif not is_live and ends + call.ttl <= call.now then
      op.drop[#op.drop + 1] = flat[at]
    elseif flat[at] == call.session then
      own = { total = tonumber(total), seq = tonumber(seq), is_live = is_live }
    elseif is_live then
      op.others = op.others + tonumber(total)
      op.n_live = op.n_live + 1
      op.last = math.max(op.last, ends)
      if ends < tonumber(expires) then
        op.set[#op.set + 1] = flat[at]
        op.set[#op.set + 1] = total .. ':' .. text(ends) .. ':' .. seq .. ':' .. (tonumber(keeps) or 0)
      end
      if tonumber(total) > 0 and may_hold_idle(tonumber(keeps) or 0, ends - call.ttl, call) then
        op.idle[#op.idle + 1] = flat[at]
      end
    end
  end
  permits.decide(op, call, own)
end

-- Of equal calls only the first counts; it is answered again as long as what it wrote lives.
function permits.decide(op, call, own)
  local stored = own and own.is_live and own.total or 0
  op.grant = 0
  if own and op.seq <= own.seq then
    op.is_old = true
    op.status = (op.seq < own.seq or not own.is_live) and 1 or 0
    op.total = stored
    op.n_live = op.n_live + (own.is_live and 1 or 0)
  else
    op.total = op.held == -1 and stored or op.held
    op.n_live = op.n_live + 1
    if not call.learning then
      local free = math.max(0, op.limit - op.others - op.total)
      local needed = math.min(op.need, free)
      op.grant = needed + math.min(op.want - op.need, math.floor((free - needed) / op.parts))
      op.is_short = op.grant < op.need
    end
  end
  op.met = op.min == 0 or op.grant >= op.min
end

function permits.write(op, call, is_granted, out)
  if not op.is_old then
    local ends = call.now + call.ttl
    if is_granted then
      op.total = op.total + op.grant
    end
    op.set[#op.set + 1] = call.session
    op.set[#op.set + 1] = text(op.total) .. ':' .. text(ends) .. ':' .. text(op.seq) .. ':' .. text(op.keeps)
    if #op.drop > 0 then
      redis.call('HDEL', op.key, unpack(op.drop))
    end
    redis.call('HSET', op.key, unpack(op.set))
    expire_in(op.key, math.max(op.last, ends) + 2 * call.ttl - call.now)
  end
  recall(op, call, op.mark, op.idle)
  out(op.status, op.total, op.others, op.n_live, op.contended)
end
