import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { DeviceStore } from '../store.js'
import { DeviceNotes } from '../notes.js'
import { grantOf, revocationOf } from './grants-kit.js'
import type { Logger } from '../../../kernel/index.js'

const quiet = { warn: () => {}, error: () => {}, debug: () => {}, info: () => {} } as unknown as Logger

t.test('notes reach the disk in one go, and only when there is something new', async (t) => {
  const home = t.testdir({ state: {} })
  const path = join(home, 'state', 'device-notes.json')
  const clock = manualClock()
  const options = { home, clock, log: quiet }
  const notes = new DeviceNotes(options)
  t.equal(notes.inTouchMs, null)
  t.ok(notes.noteUse('a', '2026-01-01'))
  t.notOk(notes.noteUse('a', '2026-01-01'))
  t.ok(notes.noteUse('b', '2026-01-02'))
  notes.noteTouch()
  t.notOk(existsSync(path), 'no request waits for the disk')
  notes.write()
  const written = statSync(path)
  t.equal(written.mode & 0o777, 0o600)
  notes.write()
  t.equal(statSync(path).ino, written.ino, 'nothing new: not written again')
  notes.forget('b')
  notes.write()
  const again = new DeviceNotes(options)
  t.same([again.usedDay('a'), again.usedDay('b'), again.inTouchMs], ['2026-01-01', null, clock.now()])
  t.same(readdirSync(join(home, 'state')), ['device-notes.json'])
})

t.test('what a broken disk did not take is written as soon as it does', async (t) => {
  const home = t.testdir({})
  let told = 0
  const log = { ...quiet, error: () => { told++ } } as unknown as Logger
  const options = { home, clock: manualClock(), log }
  const notes = new DeviceNotes(options)
  notes.noteUse('a', '2026-01-01')
  notes.write()
  t.equal(told, 1)
  mkdirSync(join(home, 'state'))
  notes.write()
  t.equal(new DeviceNotes(options).usedDay('a'), '2026-01-01')
  writeFileSync(join(home, 'state', 'device-notes.json'), '{')
  t.throws(() => new DeviceNotes(options), /not valid JSON/)
})

t.test('what the document says is looked at once; something new of the same device counts', (t) => {
  const home = t.testdir({ state: {} })
  const path = join(home, 'state', 'devices.json')
  const clock = manualClock()
  let checked = 0
  const book = new DeviceStore({ home, clock, log: quiet, problem: () => { checked++; return null } })
  const entries = [1, 2, 3].map(() => ({ grant: grantOf(clock), revoked: null }))
  t.ok(book.merge(entries))
  const text = readFileSync(path, 'utf8')
  rmSync(path)
  t.notOk(book.merge(entries))
  t.equal(checked, 3)
  t.notOk(existsSync(path), 'nothing new: not written')
  // A new session delivers equal entries as new objects, which must not count as changes.
  t.notOk(book.merge(structuredClone(entries)))
  const [first] = entries
  t.ok(book.merge([{ grant: null, revoked: revocationOf(first!.grant, clock.now()) }]))
  t.notOk(book.merge(entries), 'a revoked one stays so')
  t.same([book.grant(first!.grant.deviceId), book.entries().length], [undefined, 3])
  t.match(text, entries[2]!.grant.deviceId)
  t.end()
})
