import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { chromeText, TRACE_ID } from '../trace-file.js'
import { TraceStore, type TraceStoreParts } from '../store.js'
import { record } from './samples.js'
import type { TraceCounters } from '../service.js'

interface Rig {
  store: TraceStore
  folder: string
  counters: TraceCounters
  warned: string[]
  clock: TraceStoreParts['clock']
}

function rig (t: Test, more: Partial<TraceStoreParts> = {}): Rig {
  const folder = more.folder ?? join(t.testdir(), 'traces')
  const clock = manualClock()
  const counters: TraceCounters = {
    recorded: 0, written: 0, droppedQueue: 0, droppedDisk: 0, droppedSpans: 0, exported: 0, exportDropped: 0
  }
  const warned: string[] = []
  const none = (): void => {}
  const log = {
    debug: none, info: none, error: none, fatal: none,
    warn: (_: object, message: string) => { warned.push(message) }
  }
  const store = new TraceStore({ folder, clock, log, counters, maxBytes: 1024 * 1024, ...more })
  return { store, folder, counters, warned, clock }
}

const numbered = (n: number): ReturnType<typeof record> => record({
  taskId: `task-${n}`, commandId: `command-${n}`,
  createdAt: `2026-01-01T00:00:${String(n).padStart(2, '0')}.000Z`
})

t.test('a trace is there at once, then in a file, and after a restart', async (t) => {
  const { store, folder, counters } = rig(t)
  await store.load()
  t.same(store.list(), [])
  store.put(record({ droppedSpans: 3 }))
  t.match(store.list(), [{ taskId: 'task-1', fileSize: 0 }])
  t.equal(await store.read('task-1'), chromeText(record({ droppedSpans: 3 })))
  await store.idle()
  const text = readFileSync(join(folder, 'task-1.json'), 'utf8')
  t.equal(text, chromeText(record({ droppedSpans: 3 })))
  t.match(store.list(), [{
    taskId: 'task-1', commandId: 'command-1', modelId: 'acme/lm', taskKind: 'chat', outcome: 'completed',
    durationUs: 9000, fileSize: Buffer.byteLength(text)
  }])
  t.equal(store.find('command-1'), 'task-1')
  t.match(counters, { recorded: 1, written: 1, droppedSpans: 3, droppedDisk: 0 })

  writeFileSync(join(folder, 'half.json.tmp'), '{"other')
  writeFileSync(join(folder, 'mine.json'), '{"notes":1}')
  writeFileSync(join(folder, 'task-7.json'), chromeText(record()))
  const again = rig(t, { folder })
  await again.store.load()
  t.same(again.store.list(), store.list(), 'a file under a wrong name is none')
  t.notOk(existsSync(join(folder, 'half.json.tmp')))
  t.ok(existsSync(join(folder, 'mine.json')))
  t.equal(again.store.find('command-1'), 'task-1')
  t.equal(await again.store.read('task-1'), text)
  t.equal(await again.store.read('task-2'), undefined)
})

t.test('newest first, and the oldest go when there is too much', async (t) => {
  const bytes = Buffer.byteLength(chromeText(numbered(10)))
  const { store, folder } = rig(t, { maxBytes: 3 * bytes })
  for (let n = 10; n < 16; n++) store.put(numbered(n))
  await store.idle()
  t.same(store.list().map(({ taskId }) => taskId), ['task-15', 'task-14', 'task-13'])
  t.same(readdirSync(folder).sort(), ['task-13.json', 'task-14.json', 'task-15.json'])
  const again = rig(t, { folder, maxBytes: 2 * bytes })
  await again.store.load()
  await again.store.prune(10_000)
  t.same(again.store.list().map(({ taskId }) => taskId), ['task-15', 'task-14'], 'also with a smaller cap')
})

t.test('what comes while the files of earlier are read is newer than they are', async (t) => {
  const bytes = Buffer.byteLength(chromeText(numbered(10)))
  const { store, folder } = rig(t)
  for (let n = 10; n < 13; n++) store.put(numbered(n))
  await store.idle()
  const again = rig(t, { folder, maxBytes: 3 * bytes })
  const loading = again.store.load()
  again.store.put(numbered(20))
  await again.store.idle()
  await loading
  await again.store.prune(10_000)
  t.same(again.store.list().map(({ taskId }) => taskId), ['task-20', 'task-12', 'task-11'])
})

t.test('what is too old goes', async (t) => {
  const { store, folder, clock } = rig(t)
  t.equal(await store.prune(3), 0, 'an absent folder holds nothing')
  for (const days of [-1, 3, 4]) store.put(record({ taskId: `task-${days + 1}` }))
  await store.idle()
  for (const days of [-1, 3, 4]) {
    const at = clock.now() / 1000 - days * 86_400
    utimesSync(join(folder, `task-${days + 1}.json`), at, at)
  }
  t.equal(await store.prune(3), 1)
  t.same(readdirSync(folder).sort(), ['task-0.json', 'task-4.json'])
  t.same(store.list().map(({ taskId }) => taskId).sort(), ['task-0', 'task-4'])
})

t.test('a full disk costs traces and nothing else', async (t) => {
  const full = Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })
  let works = false
  const { store, counters, warned, folder } = rig(t, {
    write: async (path, text) => {
      if (works) await writeFile(path, text)
      else {
        await writeFile(path, text.slice(0, 10))
        throw full
      }
    }
  })
  for (let n = 10; n < 15; n++) store.put(numbered(n))
  await store.idle()
  t.match(counters, { recorded: 5, written: 0, droppedDisk: 5 })
  t.same(store.list(), [])
  t.same(readdirSync(folder), [], 'nothing half-written stays')
  t.equal(warned.length, 1, 'told once')
  works = true
  store.put(numbered(20))
  await store.idle()
  t.match(counters, { written: 1 })
  t.equal(store.list().length, 1)
})

t.test('a disk that stands still holds up nobody', async (t) => {
  let go = (): void => {}
  const stalled = new Promise<void>((resolve) => { go = resolve })
  const { store, counters } = rig(t, {
    write: async (path, text) => {
      await stalled
      await writeFile(path, text)
    }
  })
  for (let n = 0; n < 100; n++) store.put(record({ taskId: `task-${n}` }))
  t.match(counters, { recorded: 100, droppedQueue: 36 })
  t.equal(store.list().length, 64)
  t.equal(await store.remove('task-63'), true)
  go()
  await store.idle()
  t.equal(counters.droppedQueue, 36)
  t.equal(store.list().length, 63)
})

t.test('removing', async (t) => {
  const { store, folder } = rig(t)
  store.put(record())
  await store.idle()
  t.equal(await store.remove('task-1'), true)
  t.equal(await store.remove('task-1'), false)
  t.same(readdirSync(folder), [])
})

t.test('ids that could lead out of the folder are none', async (t) => {
  for (const id of ['..', '.', '', '../x', 'a/b', 'a\\b', 'a.json', '-a', '\0', 'x'.repeat(65), 'a b',
    '%2e%2e']) {
    t.notOk(TRACE_ID.test(id), JSON.stringify(id))
  }
  t.ok(TRACE_ID.test('3f2b1c00-0000-4000-8000-000000000000'))
  const { store, folder } = rig(t)
  store.put(record({ taskId: '../escaped' }))
  await store.idle()
  t.notOk(existsSync(join(folder, '..', 'escaped.json')))
  mkdirSync(folder, { recursive: true })
  t.same(readdirSync(folder), [])
})
