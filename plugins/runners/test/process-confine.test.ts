import { chmodSync, mkdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { fileRules, readable } from '../process/confine.js'
import { findSetpriv, launch } from '../process/spawn.js'
import type { Test } from 'tap'
import type { Hold, Needs } from '../process/confine.js'

const NODE_ROOT = realpathSync(dirname(process.execPath))
const needs = (more: Partial<Needs> & { home: string }): Needs =>
  ({ scripts: [], model: [], options: {}, env: {}, ...more })

/** Whether a file lies in or under one of the paths. */
const covered = (paths: readonly string[], file: string): boolean =>
  paths.some((path) => file === path || file.startsWith(`${path}/`))

/** A file with its folders. */
function put (...parts: string[]): string {
  const path = join(...parts)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, 'text')
  return path
}

t.test('what a runner may read: what it works with, and never the secrets of the home', (t) => {
  const top = realpathSync(t.testdir())
  const home = join(top, 'home')
  const secrets = ['node.key', 'operator.token', 'svc.yaml', 'node.json', 'state/members.json',
    'run/runners/other/runner.log', 'events/1.db', 'traces/1', 'logs/1'].map((name) => put(home, name))
  const here = ['staging/acme/model/model.onnx', 'store/a/b.onnx', 'plugins/mine/index.mjs', 'engine.mjs']
    .map((name) => put(home, name))
  const paths = readable(needs({ home }))
  for (const file of here) t.ok(covered(paths, file), file)
  for (const file of secrets) t.notOk(covered(paths, file), file)
  for (const file of ['/usr/lib/x', '/etc/hosts', '/proc/self/stat', '/dev/null', join(NODE_ROOT, 'node')]) {
    t.ok(covered(paths, file), file)
  }
  const foreign = [...['root', 'home'].map((name) => `/${name}/me/.ssh/id`), '/tmp/x', '/var/lib/x']
  for (const file of foreign) t.notOk(covered(paths, file), file)

  const plugin = put(top, 'modules', 'node_modules', 'engine', 'lib', 'index.js')
  put(top, 'modules', 'node_modules', 'engine', 'package.json')
  const other = put(top, 'modules', 'node_modules', 'tokenizers', 'index.js')
  const beside = put(top, 'modules', 'private.txt')
  const program = put(top, 'llama', 'bin', 'llama-server')
  const library = put(top, 'llama', 'lib', 'libggml.so')
  const model = put(top, 'cache', 'blobs', '1')
  mkdirSync(join(top, 'model'))
  symlinkSync(model, join(top, 'model', 'model.onnx'))
  const all = readable(needs({
    home, scripts: [plugin], options: { serverBinary: program, max_batch: 4 },
    model: [join(top, 'model'), join(top, 'model', 'model.onnx')], env: { PATH: `${join(top, 'tools')}:bin` }
  }))
  const given = [plugin, other, program, library, model, join(top, 'model', 'x'), join(top, 'tools', 'x')]
  for (const file of given) {
    t.ok(covered(all, file), file)
  }
  for (const file of [beside, ...secrets]) t.notOk(covered(all, file), file)
  t.end()
})

t.test('a package around the home is listed without it', (t) => {
  const top = realpathSync(t.testdir())
  const key = put(top, 'trial', 'node1', 'node.key')
  const other = put(top, 'trial', 'node2', 'model.onnx')
  const script = put(top, 'dist', 'host.js')
  put(top, 'package.json')
  put(top, 'node_modules', 'a', 'index.js')
  const paths = readable(needs({ home: join(top, 'trial', 'node1'), scripts: [script] }))
  t.notOk(covered(paths, key))
  const given = [script, other, join(top, 'node_modules', 'a', 'index.js')]
  for (const file of given) t.ok(covered(paths, file), file)
  t.end()
})

/** A setpriv that writes down its arguments, knows those that are said, and runs the rest. */
function standIn (dir: string, known: string): string {
  const path = join(dir, 'setpriv')
  writeFileSync(path, `#!/bin/sh
for word in "$@"; do
  case "$word" in --) break;; --pdeathsig|KILL|${known}) ;; -*) exit 1;; esac
done
echo "$@" >> ${join(dir, 'asked')}
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
`)
  chmodSync(path, 0o755)
  return path
}

t.test('how far a setpriv holds is found out once', (t) => {
  const check = (t: Test, known: string, hold: Hold): void => {
    const dir = t.testdir({})
    const path = standIn(dir, known)
    t.strictSame(findSetpriv(dir), { path, hold }, known)
    const asked = readFileSync(join(dir, 'asked'), 'utf8')
    t.strictSame(findSetpriv(dir), { path, hold })
    t.equal(readFileSync(join(dir, 'asked'), 'utf8'), asked, 'not asked again')
  }
  const all = '--no-new-privs|--landlock-access|--landlock-rule'
  t.test('all', async (t) => { check(t, all, 'files') })
  t.test('no Landlock', async (t) => { check(t, '--no-new-privs', 'privileges') })
  t.test('neither', async (t) => { check(t, 'KILL', 'none') })
  t.end()
})

t.test('a setpriv that did not come to an answer is asked again', async (t) => {
  const dir = t.testdir({ setpriv: '#!/bin/sh\nkill -9 $$\n' })
  const path = join(dir, 'setpriv')
  chmodSync(path, 0o755)
  t.equal(findSetpriv(dir), null)
  standIn(dir, '--no-new-privs')
  t.strictSame(findSetpriv(dir), { path, hold: 'privileges' })
})

t.test('a path that is gone is left out of the rules', (t) => {
  const dir = t.testdir({})
  const rules = fileRules(['/usr', join(dir, 'nowhere')], dir)
  t.match(rules.slice(0, 2), ['--landlock-access', /^fs:read-file,write-file,/])
  t.ok(rules.includes('path-beneath:read-file:/usr'))
  t.ok(rules.some((rule) => /^path-beneath:read-file,write-file,.*:\/dev$/.test(rule)))
  t.ok(rules.some((rule) => /beneath:read-file,write-file,/.test(rule) && rule.endsWith(`:${dir}`)))
  t.notOk(rules.some((rule) => rule.includes('nowhere')))
  t.end()
})

const PROBE = `import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
const at = (path) => join(fileURLToPath(new URL('.', import.meta.url)), path)
const tried = (act) => { try { act(); return 'ok' } catch (error) { return error.code } }
console.log(JSON.stringify({
  rights: /NoNewPrivs:\\s+(\\d)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1],
  key: tried(() => readFileSync(at('home/node.key'))),
  model: tried(() => readFileSync(at('home/staging/model'))),
  own: tried(() => writeFileSync('file', 'x')),
  spoil: tried(() => writeFileSync(at('home/staging/model'), 'x')),
  parent: tried(() => readFileSync('/proc/' + process.argv[2] + '/root' + at('home/node.key'))),
  tmp: process.env.TMPDIR
}))`

/** What a process started as a runner finds that it may do. */
async function tries (t: Test, confine: boolean): Promise<Record<string, unknown>> {
  const top = realpathSync(t.testdir({
    home: { 'node.key': 'secret', staging: { model: 'x' } }, scratch: {}, 'entry.mjs': PROBE
  }))
  const [home, scratch, entry] = ['home', 'scratch', 'entry.mjs'].map((name) => join(top, name))
  const reads = confine ? () => readable(needs({ home: home!, scripts: [entry!] })) : undefined
  const { child, stdout, hold } = launch({ scratch: scratch!, mark: 'm', reads, entry: entry! })
  let text = ''
  stdout.setEncoding('utf8').on('data', (part: string) => { text += part })
  await new Promise((resolve) => { child.once('close', resolve) })
  return { ...JSON.parse(text) as object, hold, scratch }
}

const machine = findSetpriv()?.hold ?? 'none'

t.test('a runner that is not confined', async (t) => {
  const all = { key: 'ok', model: 'ok', own: 'ok', spoil: 'ok', parent: 'ok' }
  t.match(await tries(t, false), { hold: 'none', ...all })
})

const less = machine === 'none' && 'no setpriv for it'
t.test('a confined runner gets no new rights', { skip: less }, async (t) => {
  t.match(await tries(t, true), { hold: machine, rights: '1', model: 'ok', own: 'ok' })
})

const least = machine !== 'files' && 'no setpriv with Landlock'
t.test('a confined runner has its files only', { skip: least }, async (t) => {
  const found = await tries(t, true)
  t.match(found, { key: 'EACCES', model: 'ok', own: 'ok', spoil: 'EACCES', parent: 'EACCES' })
  t.equal(found['tmp'], found['scratch'])
})
