import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { LineLimiter, RingFile } from '../process/output.js'
import { RateMeter } from '../process/limits.js'

t.test('lines are cut, whatever the pieces', (t) => {
  const check = (name: string, text: string, expected: string[], lineChars = 8): void => {
    for (const pieceBytes of [1, 3, 1_000]) {
      const limiter = new LineLimiter({ lineChars, linesPerSecond: 1_000 })
      const bytes = Buffer.from(text)
      const lines: string[] = []
      for (let at = 0; at < bytes.length; at += pieceBytes) {
        lines.push(...limiter.push(bytes.subarray(at, at + pieceBytes), 0))
      }
      lines.push(...limiter.end(0))
      t.strictSame(lines, expected, `${name}, pieces of ${pieceBytes}`)
    }
  }
  check('plain', 'one\ntwo\n', ['one', 'two'])
  check('no last newline', 'one\ntwo', ['one', 'two'])
  check('empty lines', '\n\na\n', ['', '', 'a'])
  check('too long', '0123456789abcdefgh\nz\n', ['01234567', '89abcdef', 'gh', 'z'])
  check('exactly as long as allowed', '01234567\nz\n', ['01234567', 'z'])
  check('letters of several bytes', 'grüße\n🎧\n', ['grüße', '🎧'])
  t.end()
})

t.test('more lines per second than allowed are counted', (t) => {
  const limiter = new LineLimiter({ lineChars: 100, linesPerSecond: 3 })
  t.strictSame(limiter.push(Buffer.from('a\nb\nc\nd\ne\nf'), 0), ['a', 'b', 'c'])
  t.equal(limiter.takeDropped(), 2)
  t.equal(limiter.takeDropped(), 0)
  t.equal(limiter.flooded(999), true)
  t.equal(limiter.flooded(1_000), false)
  t.strictSame(limiter.push(Buffer.from('g\nh\n'), 999), [])
  t.equal(limiter.takeDropped(), 2)
  t.strictSame(limiter.push(Buffer.from('i\n'), 1_000), ['i'])
  t.end()
})

t.test('the meter counts in windows of a second', (t) => {
  const meter = new RateMeter(2)
  const times = [0, 1, 2, 999, 1_000, 1_001, 1_002]
  t.strictSame(times.filter((at) => meter.admit(at)), [0, 1, 1_000, 1_001])
  t.equal(meter.full(1_500), true)
  t.equal(meter.full(2_000), false)
  t.end()
})

t.test('a ring file keeps the newest lines within its bound', async (t) => {
  const path = join(t.testdir(), 'runner.log')
  const ring = new RingFile(path, 1_000)
  for (let i = 0; i < 500; i++) {
    ring.line(`line ${i}`)
    if (i % 20 === 0) await ring.flushed()
  }
  await ring.flushed()
  const sizes = await Promise.all([path, `${path}.1`].map(async (file) => (await stat(file)).size))
  t.ok(sizes.every((size) => size <= 500), `sizes ${sizes.join(', ')}`)
  const text = await readFile(path, 'utf8')
  t.ok(text.endsWith('line 499\n'))
  t.equal((await stat(path)).mode & 0o777, 0o600)
  t.equal(ring.lost, 0)
})

t.test('a ring file that cannot be written counts what it loses', async (t) => {
  const ring = new RingFile(join(t.testdir(), 'no', 'such', 'folder', 'x.log'), 1_000)
  ring.line('one')
  await ring.flushed()
  t.equal(ring.lost, 1)
})
