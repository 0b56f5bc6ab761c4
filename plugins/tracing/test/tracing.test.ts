import { existsSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startPlugin } from '../../../kernel/testing/index.js'
import tracing from '../index.js'

const DAY = 86_400_000
t.test('the janitor takes old trace files only, every hour', async (t) => {
  const rig = await startPlugin(t, tracing, { settings: { tracing: { retention_days: 1 } } })
  const folder = join(rig.home, 'traces')
  mkdirSync(folder, { recursive: true })
  const put = (name: string, ageMs: number): string => {
    const path = join(folder, name)
    writeFileSync(path, '{}')
    const at = (rig.clock.now() - ageMs) / 1000
    utimesSync(path, at, at)
    return path
  }
  const [old, young, other] = [put('a.json', 2 * DAY), put('b.json', DAY / 2), put('notes.txt', 9 * DAY)]
  await rig.clock.advance(3_600_000)
  while (existsSync(old)) await new Promise((resolve) => setImmediate(resolve))
  while (rig.logged.length === 0) await new Promise((resolve) => setImmediate(resolve))
  t.ok(existsSync(young))
  t.ok(existsSync(other))
  t.match(rig.logged, [{ message: 'pruned old trace files', fields: { files: 1 } }])
})
