-- An InFlight limit, which keeps no state of its own: it counts what its pair holds.
-- Uses nothing.
local inFlight = {}

function inFlight.rewind()
  return nil
end

function inFlight.advance(state)
  return state
end

function inFlight.wait()
  return 0
end

function inFlight.report(_, l)
  return l.capacity, 0, 0
end

function inFlight.empty()
  return inFlight
end
