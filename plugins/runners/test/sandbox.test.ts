import './process-plain-spawn.js'
import { spawn, spawnSync } from 'node:child_process'
import {
  copyFileSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync
} from 'node:fs'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { release, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { filesFor } from '../process/confine.js'
import { findTools, probeSandboxLevel, findSandboxProblem, type SandboxLevel } from '../process/sandbox.js'
import { launch } from '../process/spawn.js'
import { lives, until } from './process-kit.js'

const INTRUDER = fileURLToPath(new URL('./fixtures/intruder.mjs', import.meta.url))
const SECRETS = ['node.key', 'operator.token', 'svc.yaml', 'devices/laptop.json', 'state/tokens.json',
  'staging/acme/other/weights', 'run/runners/r/runner.pid', 'run/runners/other/work/x', 'plugins/p/index.js']
const CANARY = 'canary-of-the-environment'
const isRoot = process.getuid?.() === 0

/** A home with a model and everything that its runner must not see. */
function homeOf (t: Test): Record<'home' | 'model' | 'scratch' | 'outside' | 'engine', string> {
  // Not in /dev/shm, where test folders may be, because Landlock does not restrict that folder.
  const top = join(realpathSync(t.testdir()), 'a folder')
  const home = join(top, 'home')
  for (const path of [...SECRETS, 'staging/acme/model/weights']) {
    mkdirSync(dirname(join(home, path)), { recursive: true })
    writeFileSync(join(home, path), 'as it was', { mode: 0o600 })
  }
  writeFileSync(join(top, 'outside'), 'as it was')
  const engine = join(top, 'engine', 'intruder.mjs')
  mkdirSync(dirname(engine))
  copyFileSync(INTRUDER, engine)
  return { home, model: join(home, 'staging/acme/model'), scratch: join(home, 'run/runners/r'),
    outside: join(top, 'outside'), engine }
}

type Tried = 'link' | 'kernel' | 'environ' | 'root' | 'memory' | 'signal' | 'kill'
interface Found extends Record<Tried, string> {
  read: Record<string, string>
  write: Record<string, string>
  disks: string[]
  strangers: number
  capabilities: string[]
  noNewPrivs: string
  userNamespace: number | null
  interfaces: string[]
  reached: string[]
  env: string[]
  told: string
  marked: boolean
  cwd: string
}

/** Runs a hostile engine at a level and returns its findings. */
async function intrude (t: Test, hold: SandboxLevel, more: { network?: boolean } = {}) {
  const { home, model, scratch, outside, engine } = homeOf(t)
  const api = createServer((socket) => { socket.destroy() }).listen(0)
  await once(api, 'listening')
  t.teardown(() => { api.close() })
  const victim = spawn('/bin/sleep', ['1000'], { stdio: 'ignore' })
  t.teardown(() => victim.kill('SIGKILL'))
  process.env['SVC_TOKEN'] = process.env['HF_TOKEN'] = CANARY
  t.teardown(() => { delete process.env['SVC_TOKEN']; delete process.env['HF_TOKEN'] })
  const files = () => filesFor({
    home, scripts: [engine], model: [model, join(model, 'weights')], options: {}, env: process.env
  })
  const { child, frames, stderr } = launch({ scratch, mark: 'm', files, entry: engine, hold, ...more })
  let [text, errors] = ['', '']
  stderr.setEncoding('utf8').on('data', (part: string) => { errors += part })
  frames.setEncoding('utf8').on('data', (part: string) => { text += part })
  const own = (name: string): string => join(scratch, 'work', name)
  frames.write(`${JSON.stringify({
    read: [...SECRETS.map((name) => join(home, name)), outside, join(model, 'weights'), '/etc/hosts'],
    write: [join(model, 'weights'), join(home, 'node.key'), join(home, 'new'), join(scratch, 'new'), outside,
      join(dirname(outside), 'new'), engine, own('own')],
    node: process.pid, victim: victim.pid, ports: [(api.address() as AddressInfo).port],
    hosts: ['127.0.0.1', '::1']
  })}\n`)
  await new Promise((resolve) => { child.once('close', resolve) })
  if (!text.endsWith('\n')) throw new Error(`the intruder said nothing: ${errors}`)
  const found = JSON.parse(text) as Found
  const ok = (tried: Record<string, string>): string[] =>
    Object.keys(tried).filter((key) => tried[key] === 'ok')
  return {
    found, read: ok(found.read), written: ok(found.write), own: own('own'),
    weights: join(model, 'weights'), home, outside, victim, work: join(scratch, 'work')
  }
}

const { setpriv = 'setpriv' } = findTools()
const works = (...args: string[]): boolean => spawnSync(setpriv, [...args, '--', 'true']).status === 0
const scratch = realpathSync(mkdtempSync(join(tmpdir(), 'svc-level-')))
const best = probeSandboxLevel({ scratch, work: scratch, files: () =>
  filesFor({ home: '/nowhere', scripts: [], model: [], options: {}, env: process.env }) }, 0).hold
rmSync(scratch, { recursive: true })
t.comment(`this machine holds runners by ${best}; ${release()}, ${isRoot ? 'root' : 'not root'}`)

/** Whether this machine supports each sandbox level, not only the best one. */
const offers: Record<SandboxLevel, boolean> = {
  namespaces: best === 'namespaces',
  network: works('--landlock-access', 'net', '--landlock-access', 'scope'),
  files: works('--landlock-access', 'fs:make-block'),
  privileges: works('--no-new-privs'),
  none: true
}
const skipped = (hold: SandboxLevel): string | false => !offers[hold] && `this machine has no ${hold}`

t.test('what every level promises', async (t) => {
  for (const hold of ['namespaces', 'network', 'files', 'privileges'] as const) {
    await t.test(hold, { skip: skipped(hold) }, async (t) => {
      const { found, victim, work } = await intrude(t, hold)
      t.equal(found.noNewPrivs, '1', 'no new privileges')
      t.strictSame(new Set(found.capabilities), new Set(['0000000000000000']), 'no capabilities')
      t.notMatch(found.told, CANARY)
      const secret = /TOKEN|KEY|^SVC_(?!RUNNER_MARK$|\w+_SERVER_BIN$)/
      t.strictSame(found.env.filter((name) => secret.test(name)), [], 'no credentials')
      t.equal(found.cwd, work)
      // The kernel does not let root without capabilities inspect a process that has some.
      if (isRoot || hold !== 'privileges') {
        t.notSame([found.environ, found.root, found.memory].includes('ok'), true, 'nothing of the node')
      }
      t.equal(found.marked, hold === 'files' || hold === 'privileges', 'marked when it shares the network')
      t.comment(`${hold}: ${JSON.stringify({ ...found, told: undefined, env: undefined })}`)
      if (hold === 'namespaces' || hold === 'network') t.ok(lives(victim.pid!), 'no signal to others')
    })
  }
})

t.test('of files a runner has its own and those it needs', async (t) => {
  for (const hold of ['namespaces', 'network', 'files'] as const) {
    await t.test(hold, { skip: skipped(hold) }, async (t) => {
      const { found, read, written, own, weights, outside, home } = await intrude(t, hold)
      t.strictSame(read, [weights, '/etc/hosts'])
      t.strictSame(written, [own])
      t.equal(found.link, 'ok', 'in its own folder it may do anything')
      t.strictSame(found.disks, [])
      t.not(found.kernel, 'ok')
      for (const file of [outside, weights, join(home, 'node.key')]) {
        t.equal(readFileSync(file, 'utf8'), 'as it was')
      }
    })
  }
})

t.test('a runner reaches no port of the node', async (t) => {
  for (const hold of ['namespaces', 'network'] as const) {
    await t.test(hold, { skip: skipped(hold) }, async (t) => {
      const { found } = await intrude(t, hold)
      t.notOk(found.reached.includes('ok'), String(found.reached))
    })
  }
})

t.test('in namespaces it is alone', { skip: skipped('namespaces') }, async (t) => {
  const { found } = await intrude(t, 'namespaces')
  t.match(found, { signal: 'ESRCH', kill: 'ESRCH', environ: 'ENOENT', interfaces: [] })
  t.ok(found.strangers < 5, 'other processes')
  t.not(found.userNamespace, 0, 'nor does it get capabilities in a further namespace')
  const { found: sharing } = await intrude(t, 'namespaces', { network: true })
  t.equal(sharing.reached[0], 'ok', 'unless it needs the network')
  t.match(sharing, { marked: true, signal: 'ESRCH' })
})

t.test('a program behind a link finds what lies beside it', { skip: skipped('namespaces') }, async (t) => {
  const { home, scratch, engine, outside } = homeOf(t)
  const top = dirname(outside)
  for (const name of ['real', 'links']) mkdirSync(join(top, name))
  // Like llama-server, which searches for its libraries in the folder from which the kernel started it.
  const text = '#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/library"'
  writeFileSync(join(top, 'real', 'program'), text, { mode: 0o755 })
  writeFileSync(join(top, 'real', 'library'), 'found')
  const links = [['links', 'program', '../real/program'], ['', 'folder', 'real']] as const
  for (const [folder, name, target] of links) symlinkSync(target, join(top, folder, name))
  for (const path of [join(top, 'links', 'program'), join(top, 'folder', 'program')]) {
    writeFileSync(engine, `import { spawnSync } from 'node:child_process'
      import { Socket } from 'node:net'
      const { stdout, stderr } = spawnSync(${JSON.stringify(path)})
      new Socket({ fd: 3 }).end(stdout + '|' + stderr)`)
    const files = () => filesFor({
      home, scripts: [engine], model: [], options: { serverBinary: path }, env: process.env
    })
    const { child, frames } = launch({ scratch, mark: 'm', files, entry: engine, hold: 'namespaces' })
    let said = ''
    frames.setEncoding('utf8').on('data', (part: string) => { said += part })
    await once(child, 'close')
    t.equal(said, 'found|', path)
  }
})

t.test('what is not held can do all of it: the intruder tries in earnest', async (t) => {
  const { found, written, victim } = await intrude(t, 'none')
  t.match(found, { environ: 'ok', signal: 'ok', kill: 'ok', noNewPrivs: '0' })
  t.equal(written.length, 8)
  await until('the end of the victim', () => !lives(victim.pid!))
})

t.test('where the sandbox cannot be tried, as on a full disk, that is said', (t) => {
  t.match(findSandboxProblem(join(t.testdir({ file: '' }), 'file'), 0),
    /^The sandbox could not be tested: ENOTDIR/)
  t.end()
})
