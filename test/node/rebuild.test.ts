// Rebuilds a checkout while commands start and a node runs from the previous build.
import { spawnSync } from 'node:child_process'
import {
  appendFileSync, cpSync, existsSync, mkdirSync, readdirSync, readlinkSync, symlinkSync
} from 'node:fs'
import { basename, join } from 'node:path'
import t, { type Test } from 'tap'
import { ask } from './http.js'
import { cleanEnv, folder, root, run, until, writeConfig } from './kit.js'

/** Copies the sources of this checkout and links its packages. */
function checkout (t: Test): string {
  const copy = join(folder(t), 'svc checkout')
  const wanted = (path: string): boolean => path.includes('/kernel/cli/data') || basename(path) !== 'test'
  const parts = ['kernel', 'plugins', 'svc', 'package.json', 'package-lock.json', 'tsconfig.json',
    'tsconfig.build.json']
  for (const part of parts) cpSync(join(root, part), join(copy, part), { recursive: true, filter: wanted })
  mkdirSync(join(copy, 'node_modules/.bin'), { recursive: true })
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (!name.startsWith('.')) symlinkSync(join(root, 'node_modules', name), join(copy, 'node_modules', name))
  }
  return copy
}

t.test('a build disturbs neither commands nor a running node', async (t) => {
  const copy = checkout(t)
  const built = (): string => readlinkSync(join(copy, 'dist/current'))
  const home = join(copy, 'home')
  writeConfig(home, { cluster: { port: 0 }, plugins: { runners: { enabled: false } } })
  const node = run(join(copy, 'svc'), ['up', '--home', home, '--port', '0', '--json'], { cwd: copy })
  t.teardown(() => { node.process.kill('SIGKILL') })
  const line = await until('svc is built and up', () => {
    if (node.over()) throw new Error(node.stderr())
    return /^{.*}$/m.exec(node.stdout())?.[0]
  }, { seconds: 200 })
  const { url } = JSON.parse(line) as { url: string }
  const first = built()

  for (const path of ['kernel/cli/errors.ts', 'plugins/steward/turn.ts', 'plugins/dashboard/page/main.tsx']) {
    appendFileSync(join(copy, path), '\nexport const built = "again"\n')
  }
  const build = run('npm', ['run', 'build'], { cwd: copy })
  let commands = 0
  while (!build.over() || commands < 20) {
    const words = commands % 2 === 0 ? ['status', '--url', url] : ['help', 'exit-codes']
    const { status, stderr } = spawnSync(process.execPath, [join(copy, 'dist/kernel/cli/main.js'), ...words],
      { env: cleanEnv(), encoding: 'utf8' })
    t.equal(status, 0, stderr)
    commands++
    await new Promise((resolve) => { setImmediate(resolve) })
  }
  t.equal(await build.ended, 0, build.stderr())
  t.not(built(), first)
  t.ok(existsSync(join(copy, 'dist', first)), 'the build in use stays')

  const body = { question: 'who is the master' }
  t.equal((await ask({ url }, '/v1/steward/ask', { body })).status, 200, 'a part that nobody had asked for')
  t.match(await ask({ url }, '/'), { status: 200, text: /<script/ }, 'the page of its own build')
  const { stdout } = spawnSync(join(copy, 'svc'), ['--version'], { env: cleanEnv(), encoding: 'utf8' })
  t.match(stdout, /^\d+\.\d+\.\d+\n$/)
  const again = built()
  t.equal(spawnSync('npm', ['run', 'prepare'], { cwd: copy, env: cleanEnv() }).status, 0)
  t.equal(built(), again, 'what is fresh is not built')
})
