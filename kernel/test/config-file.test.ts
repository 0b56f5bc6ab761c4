import t from 'tap'
import { chmodSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { untrustedOwner, findConfig, pluginModules, readConfigFile, saveConfigFile } from '../config/file.js'
import { readConfigText } from '../config/text.js'
import { brief } from './config-fixture.js'

t.test('the file is found by flag, variable, home, in this order', async (t) => {
  const home = t.testdir({ 'svc.yaml': '', empty: {} })
  const empty = join(home, 'empty')
  type Env = Record<string, string>
  const check = (flag: string | undefined, env: Env, at: string, expected: string | null): void => {
    t.equal(findConfig({ flag, env, home: at }), expected)
  }
  check('/a.yaml', { SVC_CONFIG: '/b.yaml' }, home, '/a.yaml')
  check(undefined, { SVC_CONFIG: '/b.yaml' }, home, '/b.yaml')
  check(undefined, { SVC_CONFIG: '' }, home, join(home, 'svc.yaml'))
  check(undefined, {}, home, join(home, 'svc.yaml'))
  check(undefined, {}, empty, null)
  check(undefined, {}, join(empty, 'absent'), null)
  symlinkSync('nowhere', join(empty, 'svc.yaml'))
  check(undefined, {}, empty, join(empty, 'svc.yaml'))
  t.match(brief(readConfigFile(join(empty, 'svc.yaml')).problems), [/there is no such file/])
})

t.test('a file that is unsafe or unreadable is refused', async (t) => {
  const dir = t.testdir()
  const file = join(dir, 'svc.yaml')
  t.equal(untrustedOwner(1000, 1000), null)
  t.equal(untrustedOwner(0, 1000), null)
  for (const own of [1000, 0]) t.match(untrustedOwner(1001, own), `user 1001, neither to user ${own}`)
  const check = (content: string | Buffer, mode: number, expected: RegExp | null): void => {
    writeFileSync(file, content)
    chmodSync(file, mode)
    const raw = readConfigFile(file)
    t.equal(raw.broken, expected !== null)
    if (expected === null) t.strictSame(raw.problems, [])
    else t.match(brief(raw.problems), [expected])
  }
  check('name: a', 0o600, null)
  check('name: a', 0o644, null)
  check('name: a', 0o664, /^- : may be written by group or others \(mode 664\).*chmod go-w '.*svc\.yaml'$/)
  check('name: a', 0o602, /may be written by group or others \(mode 602\)/)
  check('#'.repeat(1024 * 1024), 0o600, null)
  check('#'.repeat(1024 * 1024 + 1), 0o600, /^- : is too large: 1048577 bytes, at most 1048576 are allowed$/)
  check(Buffer.from([0x61, 0x3a, 0x20, 0xff]), 0o600, /^- : is not UTF-8 text$/)
  mkdirSync(join(dir, 'folder'))
  t.match(brief(readConfigFile(join(dir, 'folder')).problems), [/is not a regular file/])
  t.match(brief(readConfigFile('/dev/zero').problems), [/is not a regular file/])
  t.match(brief(readConfigFile(join(dir, 'none.yaml')).problems), [/there is no such file/])
  t.strictSame(readConfigFile(null).problems, [])
})

t.test('YAML that could surprise is refused', async (t) => {
  const check = (text: string, ...expected: (string | RegExp)[]): void => {
    t.match(brief(readConfigText(text, '/svc.yaml').problems), expected, JSON.stringify(text.slice(0, 60)))
    t.equal(readConfigText(text, '/svc.yaml').problems.length, expected.length)
  }
  check('a: *x', '1:4 a: aliases (*name) are not accepted')
  check('a: &x 1\nb: *x',
    '1:7 a: anchors (&name) are not accepted', '2:4 b: aliases (*name) are not accepted')
  check('a: !foo 1', '1:9 a: the tag !foo is not accepted')
  check('a: !!binary aGk=', '1:13 a: the tag tag:yaml.org,2002:binary is not accepted')
  check('a: !!js/function "x"', '1:18 a: the tag tag:yaml.org,2002:js/function is not accepted')
  check('a: !!str 1')
  check('a: 1\nb: 2\na: 3', '3:1 a: the key is repeated; the first is on line 1')
  check('a: {1: x, "1": y}', '1:11 a[1]: the key is repeated; the first is on line 1')
  check('__proto__: {x: 1}', '1:1 : the key __proto__ is not accepted')
  check('a: {constructor: 1, prototype: 2}', '1:5 a: the key constructor is not accepted',
    '1:21 a: the key prototype is not accepted')
  check('? [a]\n: 1', '1:3 : a key must be plain text')
  check('? &k a\n: 1', /a key must be plain text/)
  check(': 1', /a key must be plain text/)
  check('a: 1\nb: "x\0"', '2:6 : has a NUL character')
  check('a: 1\n---\nb: 2', /^2:1 : only one YAML document is supported$/)
  check('a: {', /^1:\d : /)
  check('a:\n\tb: 1', /^2:\d : Tabs are not allowed as indentation$/)
  t.strictSame(Object.getPrototypeOf(readConfigText('a: {b: 1}', null).value), null)
  t.strictSame(({} as Record<string, unknown>)['x'], undefined)
})

t.test('hostile sizes end in one problem and not in a crash', async (t) => {
  for (const text of ['['.repeat(1e6), '{a: '.repeat(2e5), '- '.repeat(5e5), '? '.repeat(5e5)]) {
    const raw = readConfigText(text, '/svc.yaml')
    t.match(brief(raw.problems), [/^1:\d+ : nests deeper than 64 levels$/])
    t.ok(raw.broken)
  }
  const deep = Array.from({ length: 60 }, (_, level) => ' '.repeat(level) + 'a:').join('\n')
  t.strictSame(readConfigText(deep, null).problems, [])
  const many = readConfigText('a: [}\n'.repeat(1000), '/svc.yaml')
  t.ok(many.problems.length <= 20 && many.broken)
})

t.test('YAML 1.1 does not come back by a directive', async (t) => {
  const raw = readConfigText('%YAML 1.1\n---\na: yes\n<<: {b: 1}\n', null)
  t.equal(raw.value['a'], 'yes')
  t.equal(raw.value['b'], undefined)
})

t.test('positions count from one, also with a byte order mark and Windows line ends', async (t) => {
  const raw = readConfigText('\ufeffa: 1\r\nb:\r\n  c: [x, y]\r\n', null)
  t.strictSame(raw.problems, [])
  t.strictSame(raw.position(['b', 'c']), { line: 3, column: 3 })
  t.strictSame(raw.position(['b', 'c', '1']), { line: 3, column: 10 })
  t.equal(raw.position(['b', 'd']), undefined)
})

t.test('plugins of one\'s own are listed with where to look', async (t) => {
  const text = `plugins:
  mine: { module: ./mine/index.js }
  above: { module: ../above.js }
  whole: { module: /opt/whole.js }
  pack: { module: "@acme/pack" }
  url: { module: "https://a.example/x.js" }
  number: { module: 5 }
  runners: { threads: 2 }
  nothing:
`
  const found = pluginModules(readConfigText(text, '/etc/svc/svc.yaml'))
  t.strictSame(found.map(({ name, module, path }) => [name, module, path]), [
    ['mine', './mine/index.js', '/etc/svc/mine/index.js'],
    ['above', '../above.js', '/etc/above.js'],
    ['whole', '/opt/whole.js', '/opt/whole.js'],
    ['pack', '@acme/pack', null]
  ])
  t.ok(found.every(({ resolvedFrom }) => resolvedFrom === '/etc/svc/svc.yaml'))
  t.strictSame(pluginModules(readConfigFile(null)), [])
  t.strictSame(pluginModules(readConfigText('plugins: 5', '/svc.yaml')), [])
})

t.test('saving keeps links and permissions, and a new file is private', async (t) => {
  const dir = t.testdir({ 'real.yaml': 'a: 1\n' })
  chmodSync(join(dir, 'real.yaml'), 0o640)
  symlinkSync('real.yaml', join(dir, 'svc.yaml'))
  saveConfigFile(join(dir, 'svc.yaml'), 'a: 2\n')
  t.equal(readFileSync(join(dir, 'real.yaml'), 'utf8'), 'a: 2\n')
  t.equal(statSync(join(dir, 'real.yaml')).mode & 0o777, 0o640)
  saveConfigFile(join(dir, 'new.yaml'), 'a: 3\n')
  t.equal(statSync(join(dir, 'new.yaml')).mode & 0o777, 0o600)
  t.throws(() => { saveConfigFile(join(dir, 'none', 'svc.yaml'), '') }, { code: 'ENOENT' })
})
