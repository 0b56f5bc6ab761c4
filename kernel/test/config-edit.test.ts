import t from 'tap'
import { setInFile } from '../config/edit.js'
import { exampleYaml } from '../../docs/example.js'
import { ConfigError } from '../config/problems.js'
import { readConfigText } from '../config/text.js'
import { brief, guest, owners, resolveText } from './config-fixture.js'

t.test('an edit changes one setting and leaves the rest as it is', async (t) => {
  const check = (text: string, path: string, value: unknown, expected: string): void => {
    t.equal(setInFile(text, path, value), expected, `${path} in ${JSON.stringify(text)}`)
  }
  check('', 'plugins.x.enabled', undefined, '')
  check('# only this\n', 'name', undefined, '# only this\n')
  check('a: 1\n', 'b.c', undefined, 'a: 1\n')
  const file = `# my node
name:   attic   # the small one

api: {port: 80,  host: "0.0.0.0"}
plugins:
    runners:
        threads: 2 # enough
    # the hub
    hub:
        token: 'x y'
# the end
`
  check(file, 'name', 'cellar', file.replace('attic', 'cellar'))
  check(file, 'api.port', 8080, file.replace('port: 80,', 'port: 8080,'))
  check(file, 'plugins.hub.token', 'a: b', file.replace("'x y'", '"a: b"'))
  check(file, 'plugins.runners.threads', 3, file.replace('threads: 2', 'threads: 3'))
  // Adding a key keeps all comments and values, but spacing may change.
  const spaced = file.replace('name:   attic   #', 'name: attic #').replace('80,  host', '80, host')
    .replace('# the end', '\n# the end')
  check(file, 'plugins.runners.enabled', false,
    spaced.replace('# enough\n', '# enough\n        enabled: false\n'))
  check(file, 'plugins.empty.enabled', false,
    spaced.replace("'x y'\n", "'x y'\n    empty:\n        enabled: false\n"))
  check(file, 'logging.level', 'warn', spaced.replace("'x y'\n", "'x y'\nlogging:\n    level: warn\n"))
  check('', 'plugins.hub.enabled', true, 'plugins:\n  hub:\n    enabled: true\n')
  check('# only words\n', 'name', 'a', '# only words\n\nname: a\n')
  check('name: a', 'api.port', 1, 'name: a\napi:\n  port: 1\n')
  check('a: 1\r\nb: 2\r\n', 'c', 3, 'a: 1\r\nb: 2\r\nc: 3\r\n')
  check('a: |\n  text\n', 'b', 1, 'a: |\n  text\nb: 1\n')
  check('api: { port: 1 }\n', 'api.host', 'x', 'api: { port: 1, host: x }\n')
  check('# c\nplugins:\n  # d\n', 'plugins.hub.enabled', false,
    '# c\nplugins:\n  # d\n  hub:\n    enabled: false\n')
  check('plugins: # e\n\nname: a\n', 'plugins.hub', {}, 'plugins:\n  # e\n  hub: {}\n\nname: a\n')
  check('a:\n  b:', 'a.b.c', 1, 'a:\n  b:\n    c: 1\n')
  check('a: 1 # one\nb: 2\n', 'a', undefined, 'b: 2\n')
  check('a: 1\nb: [x]\n', 'b', ['x', 'y'], 'a: 1\nb:\n  - x\n  - y\n')
  check('a:\n  b:\n    c: 1\n', 'a.b.c', undefined, '')
  check('x: 1\na:\n  b:\n    c: 1\n  d: 1\n', 'a.b.c', undefined, 'x: 1\na:\n  d: 1\n')
  check('a: {}\n', 'a."b.c"', 1, 'a: {b.c: 1}\n')
})

t.test('an edit never writes what would read differently', async (t) => {
  const values = [
    '', ' x ', '5', 'true', 'null', '# no comment', 'a: b', '- x', '${env.X}', 'line\nbreak', "it's", '*x',
    0, -1.5, 1e21, true, null, [], ['a', 1], { deep: { er: [1, { x: 'y' }] } }
  ]
  const files = [
    '', 'a: 1\n', 'x:\n  y: old # why\n', 'x: {y: old}\n', 'x:\n  y:\n    z: 1\n', 'x:\n',
    'x:\n  y: |\n    old\n  w: 1\n'
  ]
  for (const text of files) {
    for (const value of values) {
      const edited = readConfigText(setInFile(text, 'x.y', value), null)
      const read = JSON.parse(JSON.stringify(edited.value)) as { x: { y?: unknown } }
      t.strictSame([edited.problems, read.x.y ?? null], [[], value], JSON.stringify([text, value]))
    }
  }
})

t.test('an edit that cannot be made is an error', async (t) => {
  const check = (text: string, path: string, message: RegExp): void => {
    t.throws(() => setInFile(text, path, 1), { message }, path)
    try { setInFile(text, path, 1) } catch (error) { t.ok(error instanceof ConfigError) }
  }
  check('a: [', 'b', /flow|Flow/)
  check('a: 1\na: 2', 'b', /is repeated/)
  check('a: 1', 'a.b', /a\.b does not fit into the file/)
  check('', 'a..b', /"a\.\.b" is not a path/)
  check('', '__proto__.x', /does not fit into the file/)
})

t.test('the example is complete, and valid when it is uncommented', async (t) => {
  const example = exampleYaml(owners)
  t.strictSame(readConfigText(example, null).problems, [])
  t.strictSame(Object.keys(readConfigText(example, null).value), [])
  t.ok(example.split('\n').every((line) => line === '' || /^ *#/.test(line)), 'every line is a comment')
  t.ok(example.split('\n').every((line) => line.length <= 110))

  const open = example.replace(/^( *)#(?=[^\s#])/gm, '$1')
  const { config, problems, warnings } = resolveText(open, { owners })
  t.strictSame([brief(problems), brief(warnings)], [[], []])
  t.equal(config.kernel.name, 'attic')
  for (const { path } of resolveText('').config.entries()) {
    const key = path.split('.').at(-1) ?? ''
    t.match(example, new RegExp(`^ *#${key}:`, 'm'), path)
  }
})

t.test('the example says what a setting is', async (t) => {
  const example = exampleYaml([...owners, guest]).replace(/\n *# */g, ' ').replace(/\n *#/g, ' ')
  const check = (part: string): void => { t.ok(example.includes(part), part) }
  check(' api: Address to listen on; 0.0.0.0 or :: for every address of the machine.')
  check('Port to listen on; 0 takes any free one. A whole number from 0 to 65535; default 52415. port: 52415')
  check('Threads of one runner. A whole number from 1 to 64; default 2. threads: 2')
  check('Text that is not empty; not set by default. store_path: (text that is not empty)')
  check('A secret: write ${env.NAME}. token: (text of at least 4 characters)')
  check('tags: [ fast, quiet ]')
  check('city: (text)')
})
