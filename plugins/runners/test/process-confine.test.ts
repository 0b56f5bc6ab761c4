import { chmodSync, mkdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { fileRules, filesFor, type SandboxNeeds } from '../process/confine.js'
import { findTools, probeSandboxLevel, missing, type SandboxLevel } from '../process/sandbox.js'

const NODE_ROOT = realpathSync(dirname(process.execPath))
const needs = (more: Partial<SandboxNeeds> & { home: string }): SandboxNeeds =>
  ({ scripts: [], model: [], options: {}, env: {}, ...more })

/** True if a file is one of the paths or lies under one. */
const covered = (paths: readonly string[], file: string): boolean =>
  paths.some((path) => file === path || file.startsWith(`${path}/`))

/** Creates a file and its parent folders. */
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
    'run/runners/other/runner.log', 'events/1.db', 'traces/1', 'logs/1', 'devices/laptop.json',
    'staging/acme/other/model.onnx', 'plugins/other/index.mjs', 'engines/b1/llama-server', 'what/comes/next']
    .map((name) => put(home, name))
  const weights = put(home, 'staging/acme/model/model.onnx')
  const scripts = ['plugins/mine/index.mjs', 'engine.mjs'].map((name) => put(home, name))
  const code = [put(home, 'shared.js'), put(home, 'plugins/mine/node_modules/a/index.js')]
  const { read: paths, write } = filesFor(needs({ home, scripts, model: [dirname(weights)] }))
  for (const file of [weights, ...scripts, ...code]) t.ok(covered(paths, file), file)
  for (const file of secrets) t.notOk(covered(paths, file), file)
  for (const file of ['/usr/lib/x', '/etc/hosts', join(NODE_ROOT, 'node')]) t.ok(covered(paths, file), file)
  t.ok(write.includes('/dev/null'))
  const foreign = [...['root', 'home'].map((name) => `/${name}/me/.ssh/id`), '/tmp/x', '/var/lib/x',
    '/run/secrets/x', '/dev/mem', '/dev/sda']
  for (const file of foreign) t.notOk(covered([...paths, ...write], file), file)

  const plugin = put(top, 'modules', 'node_modules', 'engine', 'lib', 'index.js')
  put(top, 'modules', 'node_modules', 'engine', 'package.json')
  const other = put(top, 'modules', 'node_modules', 'tokenizers', 'index.js')
  const beside = put(top, 'modules', 'private.txt')
  const program = put(top, 'llama', 'bin', 'llama-server')
  const library = put(top, 'llama', 'lib', 'libggml.so')
  const model = put(top, 'cache', 'blobs', '1')
  const tool = put(top, 'tools', 'x')
  mkdirSync(join(top, 'model'))
  symlinkSync(model, join(top, 'model', 'model.onnx'))
  const { read: all } = filesFor(needs({
    home, scripts: [plugin], options: { serverBinary: program, max_batch: 4 },
    model: [join(top, 'model'), join(top, 'model', 'model.onnx')], env: { PATH: `${join(top, 'tools')}:bin` }
  }))
  const given = [plugin, other, program, library, model, join(top, 'model', 'x'), tool]
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
  const { read: paths } = filesFor(needs({ home: join(top, 'trial', 'node1'), scripts: [script] }))
  t.notOk(covered(paths, key))
  const given = [script, other, join(top, 'node_modules', 'a', 'index.js')]
  for (const file of given) t.ok(covered(paths, file), file)
  t.end()
})

/** A fake setpriv that records its arguments, accepts the `known` options, and runs the command. */
function standIn (dir: string, known: string): void {
  const path = join(dir, 'setpriv')
  writeFileSync(path, `#!/bin/sh
for word in "$@"; do
  case "$word" in --) break;; --pdeathsig|KILL|${known}) ;; net|scope|-*) exit 1;; esac
done
echo "$@" >> ${join(dir, 'asked')}
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
`)
  chmodSync(path, 0o755)
}
const MINUTE = 60_000

t.test('how far this machine holds is found out once, and what is not the best anew after a while', (t) => {
  const rights = '--no-new-privs|--*-caps=-all|--bounding-set=-all'
  const check = (t: Test, known: string, hold: SandboxLevel): void => {
    const dir = realpathSync(t.testdir({ work: {} }))
    standIn(dir, known)
    const cell = { scratch: dir, work: join(dir, 'work'), files: () => ({ read: ['/usr'], write: [] }) }
    const asked = (): string => readFileSync(join(dir, 'asked'), 'utf8')
    t.match(probeSandboxLevel(cell, 0, dir), { hold }, known)
    const once = asked()
    t.match(probeSandboxLevel(cell, MINUTE - 1, dir), { hold })
    t.equal(asked(), once, 'not asked again')
    standIn(dir, `${known}|${rights}|--landlock-*|path-*|fs:*|net|scope`)
    t.match(probeSandboxLevel(cell, MINUTE, dir), { hold: 'network' }, 'the machine was changed')
  }
  t.test('files', async (t) => { check(t, `${rights}|--landlock-*|path-*|fs:*`, 'files') })
  t.test('no Landlock', async (t) => { check(t, rights, 'privileges') })
  t.test('neither', async (t) => { check(t, 'KILL', 'none') })
  t.end()
})

t.test('a setpriv that did not come to an answer is asked again', async (t) => {
  const dir = realpathSync(t.testdir({ setpriv: '#!/bin/sh\nkill -9 $$\n', work: {} }))
  chmodSync(join(dir, 'setpriv'), 0o755)
  const cell = { scratch: dir, work: join(dir, 'work'), files: () => ({ read: [], write: [] }) }
  t.match(probeSandboxLevel(cell, 0, dir), { hold: 'none', tools: {} })
  standIn(dir, '--no-new-privs|--*-caps=-all|--bounding-set=-all')
  t.match(probeSandboxLevel(cell, 0, dir), { hold: 'privileges', tools: { setpriv: join(dir, 'setpriv') } })
})

t.test('rules of Landlock', (t) => {
  const rules = fileRules({ read: ['/usr'], write: ['/dev/null', '/dev'] }, '/tmp')
  t.match(rules.slice(0, 2), ['--landlock-access', /^fs:read-file,write-file,/])
  t.ok(rules.includes('path-beneath:read-file:/usr'))
  const ofFile = 'path-beneath:read-file,write-file,truncate:/dev/null'
  t.ok(rules.includes(ofFile), 'a file has no rights of folders')
  for (const path of ['/dev', '/tmp']) {
    t.ok(rules.some((rule) => /:read-file,.*,make-sym,/.test(rule) && rule.endsWith(`:${path}`)), path)
  }
  t.end()
})

t.test('what this machine lacks is named with what mends it', (t) => {
  const all = { setpriv: '/x', unshare: '/x', mount: '/x', umount: '/x', pivot_root: '/x', prlimit: '/x' }
  const { unshare: _, ...less } = all
  const rows: [ReturnType<typeof findTools>, Record<string, string>, string, RegExp][] = [
    [all, { 'kernel/apparmor_restrict_unprivileged_userns': '1\n', 'user/max_user_namespaces': '96365\n' },
      'linux', /userns is 1: `sudo sysctl -w kernel\.apparmor_restrict_unprivileged_userns=0`/],
    [all, { 'kernel/unprivileged_userns_clone': '0\n' }, 'linux', /-w kernel.unprivileged_userns_clone=1`/],
    [all, { 'user/max_user_namespaces': '0\n' }, 'linux', /`sudo sysctl -w user.max_user_namespaces=10000`/],
    [all, { 'user/max_user_namespaces': '96365\n' }, 'linux', /containers do.*setpriv of util-linux 2.40/],
    [less, {}, 'linux', /PATH has no unshare: `sudo apt install util-linux mount`/],
    [{}, {}, 'darwin', /darwin has no sandbox/]
  ]
  for (const [tools, settings, platform, expected] of rows) {
    t.match(missing(tools, platform, (path) => settings[path.replace('/proc/sys/', '')] ?? null), expected)
  }
  t.end()
})
