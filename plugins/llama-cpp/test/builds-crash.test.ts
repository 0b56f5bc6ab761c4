import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import t from 'tap'
import { buildsOf } from '../../runners/service.js'
import { archiveOf, engine, homeAt, nameOf, sha256, startReleases, underWay } from './builds-kit.js'
import { folder } from './llama-kit.js'

const CHILD = fileURLToPath(new URL('builds-child.ts', import.meta.url))
const LOADER = `--import=${pathToFileURL(fileURLToPath(
  new URL('../../../test/tools/typescript.mjs', import.meta.url))).href}`
const ADD = ['add', 'llama.cpp', '--build', 'b7', '--backend', 'cpu', '--sha256']

t.test('an add that is killed leaves no build, and the next one goes on', { timeout: 60_000 }, async (t) => {
  const bytes = archiveOf('b7', { weight: 300_000 })
  const { url, asked } = await startReleases(t, { b7: { [nameOf('b7')]: { bytes, hold: 100_000 } } })
  const home = homeAt(folder(t), url)
  const cpu = [...ADD, sha256(bytes)]
  const child = spawn(process.execPath, [LOADER, CHILD, home, ...cpu], { stdio: 'inherit' })
  t.teardown(() => { child.kill('SIGKILL') })
  const written = (): number => {
    const names = asked.length === 0 ? [] : readdirSync(underWay(home))
    return Math.max(0, ...names.map((name) => statSync(join(underWay(home), name)).size))
  }
  while (written() === 0) await new Promise((resolve) => { setTimeout(resolve, 5) })
  child.kill('SIGKILL')
  await once(child, 'exit')
  t.strictSame(buildsOf(home, 'llama.cpp'), [])
  t.match(readdirSync(underWay(home)), [/\.part$/])

  t.match(await engine(home, cpu), { status: 0 })
  t.match(asked.map(([, range]) => range), ['', /^bytes=[1-9]\d*-$/], 'it goes on where the killed one was')
  t.equal(buildsOf(home, 'llama.cpp').length, 1)
  t.strictSame(readdirSync(underWay(home)), [])
})
