//! A server that may take over, as a copy of every key beside itself. Scripts of a test, which declare no key.

/// Brings the copy up to date.
pub(super) const REPLICATE: &str = "
    for _, key in ipairs(redis.call('KEYS', 'old{*')) do redis.call('DEL', key) end
    for _, key in ipairs(redis.call('KEYS', '{*')) do redis.call('COPY', key, 'old' .. key) end";

/// Puts the copy in place of what is there.
pub(super) const FALL_BACK: &str = "
    for _, key in ipairs(redis.call('KEYS', '{*')) do redis.call('DEL', key) end
    for _, key in ipairs(redis.call('KEYS', 'old{*')) do redis.call('COPY', key, string.sub(key, 4)) end";
