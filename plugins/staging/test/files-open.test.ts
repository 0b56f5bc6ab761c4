import { execFileSync } from 'node:child_process'
import {
  existsSync, linkSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openInside, type OpenMode } from '../files/open.js'
import { walkModel } from '../files/walk.js'
import { scratch, write } from './files-kit.js'

const MODES: OpenMode[] = ['read', 'create', 'update']

async function put (root: string, path: string, mode: OpenMode = 'create'): Promise<void> {
  const file = await openInside(root, path, mode)
  try {
    await file.write('new', 0)
  } finally {
    await file.close()
  }
}

t.test('reading and writing', async (t) => {
  const root = join(scratch(t), 'model')
  await put(root, 'a/b/c.bin')
  t.equal(readFileSync(join(root, 'a/b/c.bin'), 'utf8'), 'new', 'folders are made, the root too')
  t.equal(statSync(join(root, 'a/b')).mode & 0o777, 0o700)
  await t.rejects(put(root, 'a/b/c.bin'), { code: 'EEXIST' }, 'create makes new files only')
  writeFileSync(join(root, 'old'), 'older')
  await put(root, 'old', 'update')
  t.equal(readFileSync(join(root, 'old'), 'utf8'), 'newer', 'update keeps what is there')
  await put(root, 'x/fresh', 'update')
  const file = await openInside(root, 'x/fresh', 'read')
  t.equal(await file.readFile('utf8'), 'new')
  await file.close()
  await t.rejects(openInside(root, 'absent', 'read'), { code: 'ENOENT' })
  await t.rejects(openInside(root, 'y/absent', 'read'), { code: 'ENOENT' })
  t.notOk(existsSync(join(root, 'y')), 'reading makes no folders')
  await t.rejects(openInside(join(root, 'no', 'model'), 'f', 'create'), { code: 'ENOENT' },
    'what holds the root must be there')
  await Promise.all(Array.from({ length: 20 }, async (_, i) => { await put(root, `deep/er/f${i}`) }))
  t.equal(readdirSync(join(root, 'deep/er')).length, 20, 'at once into one new folder')
})

t.test('paths that are refused before anything is touched', async (t) => {
  const top = scratch(t)
  const root = join(top, 'model')
  const paths = ['../out', 'a/../../out', '/etc/passwd', 'a\\b', 'C:/x', '', '.', '.svc-record.json', 'a\0b']
  for (const path of paths) {
    for (const mode of MODES) {
      await t.rejects(openInside(root, path, mode), { name: 'PathError' }, JSON.stringify(path))
    }
  }
  t.same(readdirSync(top), [])
})

t.test('links and odd files', async (t) => {
  const top = scratch(t)
  const root = join(top, 'model')
  write(join(top, 'outside'), { secret: 'secret' })
  write(root, { file: 'x', 'sub/file': 'x' })
  symlinkSync('../outside/secret', join(root, 'link'))
  symlinkSync('../outside/absent', join(root, 'dangling'))
  symlinkSync('../outside', join(root, 'folder'))
  symlinkSync('sub', join(root, 'inner'))
  symlinkSync('model', join(top, 'rootlink'))
  execFileSync('mkfifo', [join(root, 'pipe')])
  const cases: [string, string][] = [
    [root, 'link'], [root, 'dangling'], [root, 'folder'], [root, 'folder/secret'], [root, 'folder/new/deep'],
    [root, 'inner/file'], [root, 'pipe'], [root, 'sub'], [root, 'file/below'], [join(top, 'rootlink'), 'file']
  ]
  for (const [folder, path] of cases) {
    for (const mode of MODES) {
      await t.rejects(openInside(folder, path, mode), { name: 'PathError' }, `${mode} ${path}`)
    }
  }
  t.same(readdirSync(join(top, 'outside')), ['secret'])
  t.equal(readFileSync(join(top, 'outside/secret'), 'utf8'), 'secret')
  linkSync(join(top, 'outside/secret'), join(root, 'hard'))
  await t.rejects(put(root, 'hard', 'update'), { name: 'PathError', message: /hard links/ })
  t.equal(readFileSync(join(top, 'outside/secret'), 'utf8'), 'secret')
  await (await openInside(root, 'hard', 'read')).close()
})

t.test('a root that the operator reaches through a link further up', async (t) => {
  const top = scratch(t)
  mkdirSync(join(top, 'disk'))
  symlinkSync('disk', join(top, 'models'))
  await put(join(top, 'models', 'acme--x'), 'a/b')
  t.equal(readFileSync(join(top, 'disk/acme--x/a/b'), 'utf8'), 'new')
})

t.test('walking a model', async (t) => {
  const root = scratch(t)
  const own = { '.svc-record.json': '{}', '.svc-journal': 'x', '.last_used': '' }
  write(root, { b: 'xx', 'a/z': '', 'a/b/c': 'x', '.gitattributes': '', ...own })
  mkdirSync(join(root, 'empty'))
  t.same(await walkModel(root), [
    { path: '.gitattributes', size: 0 }, { path: 'a/b/c', size: 1 }, { path: 'a/z', size: 0 },
    { path: 'b', size: 2 }
  ])
  await t.rejects(walkModel(join(root, 'absent')), { name: 'PathError', message: /does not exist/ })
  await t.rejects(walkModel(join(root, 'b')), { name: 'PathError' })
})

t.test('what no model may hold', async (t) => {
  const cases: [string, (root: string) => void][] = [
    ['a link to a file', (root) => { symlinkSync('/etc/passwd', join(root, 'link')) }],
    ['a link to a folder', (root) => { symlinkSync('/etc', join(root, 'sub', 'link')) }],
    ['a link with an own name', (root) => { symlinkSync('/etc/passwd', join(root, '.svc-record.json')) }],
    ['a folder with an own name', (root) => { mkdirSync(join(root, '.svc')) }],
    ['a pipe', (root) => { execFileSync('mkfifo', [join(root, 'pipe')]) }],
    ['a blank in a name', (root) => { write(root, { 'a b': '' }) }],
    ['a name of another alphabet', (root) => { write(root, { ä: '' }) }],
    ['a line break in a name', (root) => { write(root, { 'a\nb': '' }) }],
    ['a backslash in a name', (root) => { write(root, { 'a\\b': '' }) }],
    ['a name that is no text', (root) => {
      writeFileSync(Buffer.concat([Buffer.from(`${root}/a`), Buffer.from([0xff])]), '')
    }],
    ['too deep', (root) => { write(root, { 'a/b/c/d/e/f/g/h/i': '' }) }],
    ['too deep folders', (root) => { mkdirSync(join(root, 'a/b/c/d/e/f/g/h/i'), { recursive: true }) }]
  ]
  for (const [name, plant] of cases) {
    const root = scratch(t)
    write(root, { 'sub/file': '' })
    plant(root)
    await t.rejects(walkModel(root), { name: 'PathError' }, name)
  }
  const top = scratch(t)
  symlinkSync('/etc', join(top, 'model'))
  await t.rejects(walkModel(join(top, 'model')), { name: 'PathError' }, 'a link as the root')
})
