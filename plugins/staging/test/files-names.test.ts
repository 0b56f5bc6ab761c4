import t from 'tap'
import { filePathProblem, folderOf, modelIdProblem, modelOf, shown } from '../files/names.js'

const long = 'x'.repeat(96)

t.test('ids of models', async (t) => {
  const allowed = ['a/b', 'acme/Model-1.5_q4', 'a.b/c-d', 'a/b--c', 'a-/b', 'a/b-', 'com10/x', 'conx/lpt']
  for (const id of [...allowed, `${long}/${long}`]) {
    t.equal(modelIdProblem(id), null, id)
    t.equal(modelOf(folderOf(id)), id, `${folderOf(id)} means ${id}`)
  }
  const refused: [string, RegExp][] = [
    ['', /form org\/name/], ['a', /form org\/name/], ['a/b/c', /form org\/name/],
    ['../../x', /form org\/name/],
    ['/a', /characters/], ['a/', /characters/], ['a/..', /characters/], ['a/../b', /form/],
    ['./a', /characters/],
    ['a/.b', /characters/], ['a/-b', /characters/], ['a/b c', /characters/], ['a\\b', /form/],
    ['a/b\\c', /characters/],
    ['..%2f..%2fx', /form/], ['a/b%2f', /characters/], ['a/b\0', /characters/], ['a/b\n', /characters/],
    ['a\n/b', /characters/],
    ['ä/b', /characters/], ['a/\u202eb', /characters/], ['a/ｂ', /characters/],
    ['a/b..c', /two dots/], ['a/b.', /dot/], ['a./b', /dot/],
    ['CON/x', /Windows/], ['x/con', /Windows/], ['x/Nul.txt', /Windows/], ['COM1/x', /Windows/],
    ['x/lpt9.gguf', /Windows/],
    ['a--b/c', /two dashes/], ['a---b/c', /two dashes/],
    [`${long}x/b`, /characters/], [`${long}/${long}x`, /longer than 193/],
    ['a/'.padEnd(10_240, 'b'), /longer/]
  ]
  for (const [id, reason] of refused) {
    const problem = modelIdProblem(id)
    t.match(problem, reason, JSON.stringify(id.slice(0, 40)))
    t.match(problem, /^[\x20-\x7e]{1,700}$/, 'the sentence is short and printable')
    t.throws(() => folderOf(id), { name: 'PathError' })
  }
})

t.test('no two ids share a folder', async (t) => {
  const parts = ['a', 'a-', 'a--', '-a', 'b', 'a--b', 'a---b', 'b-', 'a-b', 'a.b', '--']
  const ids = parts.flatMap((org) => parts.map((name) => `${org}/${name}`))
    .filter((id) => modelIdProblem(id) === null)
  t.ok(ids.length > 20)
  t.equal(new Set(ids.map(folderOf)).size, ids.length)
  for (const id of ids) t.equal(modelOf(folderOf(id)), id, id)
})

t.test('folders that are no models', async (t) => {
  const names = [
    '', '.', '..', '.incoming', '.trash', 'acme', '--x', 'acme--', 'a--..', 'a--b.', 'con--x', 'a--nul',
    '.a--b', 'a--.b',
    'a/b--c', 'a--b/c', 'a--b\0', 'ä--b', `${long}x--b`
  ]
  for (const name of names) t.equal(modelOf(name), undefined, JSON.stringify(name))
})

t.test('paths of files', async (t) => {
  const allowed = [
    'config.json', 'onnx/model.onnx', 'a/b/c/d/e/f/g/h', 'model(1).bin', 'v1.0+x=y@z_-', '.gitattributes',
    'onnx/.svc-x',
    'sub/.last_used', '.incoming/a', 'x'.repeat(128), 'card.yaml', '-', 'a..b'
  ]
  for (const path of allowed) t.equal(filePathProblem(path), null, path)
  const refused: [string, RegExp][] = [
    ['', /empty/], ['/etc/passwd', /relative/], ['C:\\x', /backslash/], ['C:x', /relative/],
    ['c:/x', /relative/],
    ['a\\b', /backslash/], ['\\\\host\\share', /backslash/], ['//host/share', /relative/],
    ['..', /not allowed/], ['.', /not allowed/], ['../x', /not allowed/], ['a/../b', /not allowed/],
    ['a/./b', /not allowed/],
    ['a/..', /not allowed/], ['a//b', /characters/], ['a/', /characters/],
    ['a/b/c/d/e/f/g/h/i', /8 segments/],
    ['/'.repeat(10_000), /relative/], ['a/'.repeat(10_000), /8 segments/], ['x'.repeat(129), /128/],
    ['x'.repeat(10_240), /128/],
    ['a\0b', /characters/], ['a\nb', /characters/], ['a b', /characters/], ['ä', /characters/],
    ['a\u0308', /characters/], ['~/x', /characters/],
    ['a:b', /relative/], ['ab:c', /characters/], ['a*', /characters/], ['a%2fb', /characters/],
    ['$HOME', /characters/],
    ['a.', /dot/], ['a./b', /dot/], ['...', /dot/], ['CON', /Windows/], ['x/aux.json', /Windows/],
    ['x/com1/y', /Windows/],
    ['.svc-record.json', /is reserved for svc/], ['.svc/x', /reserved/], ['.SVC-Job.json', /reserved/],
    ['.last_used', /reserved/],
    ['.Last_Used', /reserved/], ['.last_used/x', /reserved/]
  ]
  for (const [path, reason] of refused) {
    const problem = filePathProblem(path)
    t.match(problem, reason, JSON.stringify(path.slice(0, 40)))
    t.match(problem, /^[\x20-\x7e]{1,700}$/, 'the sentence is short and printable')
  }
})

t.test('foreign text in messages', async (t) => {
  t.equal(shown('plain'), '"plain"')
  t.equal(shown('a\n\u202e\0'), '"a\\u000a\\u202e\\u0000"')
  t.equal(shown('x'.repeat(81)), `"${'x'.repeat(80)}"... (81 characters)`)
})
