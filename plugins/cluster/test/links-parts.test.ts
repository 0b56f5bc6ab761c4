import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { createEncoder, toUint8Array, writeAny, writeVarString, writeVarUint } from 'lib0/encoding'
import t from 'tap'
import { backoffMs } from '../../../kernel/api/backoff.js'
import { TokenBucket, MAX_DEFICIT_MS } from '../../../kernel/net/token-bucket.js'
import {
  closeCodes, closeWord, decodeFrame, encodeFrame, FrameError, readGreeting
} from '../links/frames.js'
import { dialReason } from '../links/dialler.js'
import { replaces } from '../links/links.js'
import { writeCaller } from '../../../kernel/http/forwarded.js'
import type { LinkPriority } from '../links/link.js'

t.test('frames come back as they were', (t) => {
  const bodies = [
    null, undefined, true, 0, -1, 2 ** 31, 0.1, '', 'hé', [], [[1], { a: [null] }], { a: { b: 1 } },
    Uint8Array.of(1, 2)
  ]
  const kinds = ['hello', 'ping', 'pong', 'election', 'document', 'telemetry', 'channel', 'credit'] as const
  for (const kind of kinds) {
    for (const body of bodies) t.strictSame(decodeFrame(encodeFrame(kind, body)), { kind, body })
  }
  t.end()
})

t.test('what is no frame', (t) => {
  const word = (bytes: Uint8Array): string => {
    try {
      decodeFrame(bytes)
      return 'a frame'
    } catch (error) {
      return error instanceof FrameError ? error.word : String(error)
    }
  }
  const nested = (depth: number, type: number): Buffer =>
    Buffer.concat([Buffer.of(1, 3), ...Array<Buffer>(depth).fill(Buffer.of(type, 1)), Buffer.of(126)])
  const proto = createEncoder()
  writeVarUint(proto, 1)
  writeVarUint(proto, 3)
  for (const byte of [118, 1]) writeVarUint(proto, byte)
  writeVarString(proto, '__proto__')
  writeAny(proto, { polluted: true })
  const around = Buffer.from([...randomBytes(100)])
  around.set([1, 3, 116, 50], 10)
  const check = (what: string, bytes: Uint8Array, want: string): void => { t.equal(word(bytes), want, what) }
  check('nothing', Buffer.alloc(0), 'bad_frame')
  check('a version only', Buffer.of(1), 'bad_frame')
  check('version 2', Buffer.of(2, 3, 126), 'other_version')
  check('kind 8', Buffer.of(1, 8, 126), 'unknown_kind')
  check('no value', Buffer.of(1, 3), 'bad_frame')
  check('an unknown type', Buffer.of(1, 3, 5), 'bad_frame')
  check('something after the value', Buffer.of(1, 3, 126, 0), 'bad_frame')
  check('bytes of the buffer around it', around.subarray(10, 20), 'bad_frame')
  check('64 deep', nested(64, 117), 'a frame')
  check('65 deep', nested(65, 117), 'bad_frame')
  check('300,000 deep', nested(300_000, 117), 'bad_frame')
  check('__proto__', toUint8Array(proto), 'bad_frame')
  t.equal(({} as { polluted?: boolean }).polluted, undefined)
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) =>
    /^(a frame|bad_frame|other_version|unknown_kind)$/.test(word(bytes))))
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) =>
    /^(a frame|bad_frame)$/.test(word(Uint8Array.of(1, 3, ...bytes)))), { numRuns: 1000 })
  t.end()
})

t.test('a greeting\'s fields', (t) => {
  const hello = {
    installId: 'i', nodeId: 'n', name: 'x', version: '1', clusterId: 'c', apiUrl: null, address: '127.0.0.1:1'
  }
  const good = { hello, serial: 3, alone: true }
  t.strictSame(readGreeting({ ...good, later: 1, hello: { ...hello, later: 1 } }), good)
  const check = (body: unknown, field: RegExp): void => {
    t.throws(() => readGreeting(body), { name: 'FrameError', word: 'bad_hello', message: field })
  }
  check(null, /hello/)
  check({ ...good, hello: 1 }, /hello/)
  check({ ...good, serial: 0.5 }, /serial/)
  check({ ...good, alone: 1 }, /alone/)
  for (const name of ['installId', 'nodeId', 'name', 'version', 'clusterId'] as const) {
    for (const value of ['', 'x'.repeat(257), 1, null, undefined]) {
      check({ ...good, hello: { ...hello, [name]: value } }, new RegExp(name))
    }
  }
  for (const name of ['apiUrl', 'address']) {
    check({ ...good, hello: { ...hello, [name]: 1 } }, new RegExp(name))
  }
  t.end()
})

t.test('the budget', (t) => {
  const budget = new TokenBucket(100, 10, 0)
  t.equal(budget.take(10, 0), 0, 'begins full')
  t.equal(budget.take(1, 0), 10, 'a debt takes time')
  t.equal(budget.take(0, 10), 0)
  t.equal(budget.take(10, 1_000_000), 0, 'never more than the burst')
  t.equal(budget.take(1, 1_000_000), 10)
  t.equal(budget.take(1_000_000, 1_000_000), MAX_DEFICIT_MS, 'a large debt is forgiven')
  t.equal(budget.take(0, 0), MAX_DEFICIT_MS, 'time that goes back gives nothing')
  t.end()
})

t.test('which of two links stays', (t) => {
  const rival =
    (change: Partial<LinkPriority> & { other?: Partial<LinkPriority['theirs']> }): LinkPriority => {
      const { other, ...mine } = change
      return {
        nodeId: 'n', outgoing: true, serial: 1, theirs: { serial: 1, alone: false, ...other }, ...mine
      }
    }
  const check =
    (what: string, next: LinkPriority, current: LinkPriority, want: boolean, self = 'a'): void => {
      t.equal(replaces(next, current, self, self === 'a' ? 'b' : 'a'), want, what)
    }
  check('the smaller dialled the next', rival({}), rival({ outgoing: false }), true)
  check('the smaller dialled the current', rival({ outgoing: false }), rival({}), false)
  check('the same, from the other end', rival({ outgoing: false }), rival({}), true, 'b')
  check('a later process start', rival({ nodeId: 'm', serial: 2, outgoing: false }), rival({}), true)
  check('an earlier process start', rival({ nodeId: 'm' }), rival({ serial: 2, outgoing: false }), false)
  const lone = rival({ outgoing: false, other: { serial: 2, alone: true } })
  check('the other end has lost the current', lone, rival({}), true)
  check('the other end has lost the next', rival({}), lone, false)
  check('both dialled by us', rival({ serial: 2 }), rival({}), true)
  const second = rival({ outgoing: false, other: { serial: 2 } })
  check('both dialled by them', second, rival({ outgoing: false }), true)
  check('both by them, late', rival({ outgoing: false }), second, false)
  t.end()
})

t.test('both ends keep the same link', (t) => {
  // Two random links between nodes a and b: which end dialled, and each end's serial number and `alone` flag.
  const flags = { byA: fc.boolean(), aloneA: fc.boolean(), aloneB: fc.boolean() }
  const link = fc.record({ ...flags, a: fc.nat(9), b: fc.nat(9) })
  fc.assert(fc.property(link, link, (x, y) => {
    fc.pre(x.a !== y.a && x.b !== y.b)
    // Neither link was lost, so an end can have been `alone` only at the earlier of its two links.
    const settled = [x, y].map((it, i) => {
      const other = i === 0 ? y : x
      return { ...it, aloneA: it.aloneA && it.a < other.a, aloneB: it.aloneB && it.b < other.b }
    })
    const ofA = settled.map((it): LinkPriority =>
      ({ nodeId: 'n', outgoing: it.byA, serial: it.a, theirs: { serial: it.b, alone: it.aloneB } }))
    const ofB = settled.map((it): LinkPriority =>
      ({ nodeId: 'n', outgoing: !it.byA, serial: it.b, theirs: { serial: it.a, alone: it.aloneA } }))
    fc.pre(x.byA !== y.byA)
    const keptByA = replaces(ofA[1]!, ofA[0]!, 'a', 'b')
    const keptByB = replaces(ofB[1]!, ofB[0]!, 'a' < 'b' ? 'b' : 'a', 'a')
    return keptByA === keptByB && keptByA === !replaces(ofA[0]!, ofA[1]!, 'a', 'b')
  }))
  t.end()
})

t.test('backoff, reasons, codes, the caller\'s header', (t) => {
  const limits = { minMs: 250, maxMs: 5000 }
  t.strictSame([1, 2, 3, 5, 6, 100].map((n) => backoffMs(n, limits, 0)), [125, 250, 500, 2000, 2500, 2500])
  t.strictSame([1, 6].map((n) => backoffMs(n, limits, 1)), [250, 5000])
  const reasons = {
    ECONNREFUSED: 'refused', ETIMEDOUT: 'timeout', timeout: 'timeout', ENOTFOUND: 'name_not_found',
    EHOSTUNREACH: 'no_route', ECONNRESET: 'closed', wrong_key: 'wrong_key', EOTHER: 'EOTHER'
  }
  for (const [code, reason] of Object.entries(reasons)) t.equal(dialReason({ code }), reason)
  t.equal(dialReason(new Error('?')), 'failed')
  for (const [word, code] of Object.entries(closeCodes)) t.equal(closeWord(code), word)
  t.equal(new Set(Object.values(closeCodes)).size, Object.keys(closeCodes).length, 'no code has two meanings')
  t.equal(closeWord(1006), 'lost')
  t.equal(closeWord(4999), 'closed')
  const header = writeCaller({ id: 'ä\n"', mode: 'relay', authorities: new Set(['read']) })
  t.match(header, /^[\x20-\x7e]+$/)
  t.strictSame(JSON.parse(header), { id: 'ä\n"', mode: 'relay', authorities: ['read'] })
  t.end()
})
