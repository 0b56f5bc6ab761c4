import t from 'tap'
import { EMPTY_SHA256, checkManifest, manifestDigest } from '../files/record.js'
import { chunksOf } from '../transfer/chunks.js'
import { CHUNK_BYTES, type ManifestFile, type ModelManifest } from '../types.js'
import { entryOf, manifestOf, sha256 } from './files-kit.js'

const good = manifestOf('acme/x', { 'config.json': '{}', 'onnx/model.onnx': 'weights', 'empty.txt': '' })
const hash = sha256('x')

/** Manifest entry with made-up hashes, for a file that does not exist. */
const big = (path: string, size: number): ManifestFile => ({
  path, size, sha256: sha256(path),
  chunkSha256: Array.from({ length: Math.ceil(size / CHUNK_BYTES) }, (_, i) => sha256(`${path}${i}`))
})
const withFiles = (files: ManifestFile[]): ModelManifest =>
  ({ ...good, files, totalBytes: files.reduce((sum, { size }) => sum + size, 0) })
const withPaths = (...paths: string[]): ModelManifest => withFiles(paths.map((path) => entryOf(path, 'x')))

t.test('a valid manifest is copied', async (t) => {
  const foreign = JSON.parse(JSON.stringify(good)) as ModelManifest
  const checked = checkManifest(foreign)
  t.same(checked, good)
  t.not(checked.files[0], foreign.files[0])
  t.not(checked.files[0]!.chunkSha256, foreign.files[0]!.chunkSha256)
  const swapped = { ...foreign, files: [...foreign.files].reverse() }
  t.same(checkManifest(swapped), good, 'in one order, by which chunks are numbered')
  t.same(checkManifest(withFiles([big('a', 3 * CHUNK_BYTES + 1)])).files[0]!.chunkSha256.length, 4)
})

t.test('what is refused', async (t) => {
  const file = (change: object): unknown =>
    ({ ...good, files: [{ ...good.files[0], ...change }, ...good.files.slice(1)] })
  const cases: [string, unknown, RegExp][] = [
    ['null', null, /must be object/],
    ['an unknown field', { ...good, extra: 1 }, /extra is not a known field/],
    ['a prototype', JSON.parse('{"__proto__":{"modelId":"a/b"}}'), /modelId is required/],
    ['an id that leaves', { ...good, modelId: '../../x' }, /modelId: .*not a valid model id/],
    ['a revision with a line break', { ...good, revision: 'a\nb' }, /revision/],
    ['other chunks', { ...good, chunkBytes: 1 }, /chunkBytes must be 16777216/],
    ['an empty list', { ...good, files: [], totalBytes: 0 }, /files must/],
    ['a path that leaves', file({ path: '../x' }), /files\[0\]\.path: .*not allowed/],
    ['a negative size', file({ size: -1 }), /files\.0\.size/],
    ['a huge size', file({ size: 2 ** 53 }), /files\.0\.size/],
    ['a large size without its hashes', file({ size: 2 ** 53 - 1 }), /list of 536870912 hashes/],
    ['a hash and a line', file({ sha256: `${hash}\n` }), /files\.0\.sha256/],
    ['no chunk hashes', file({ chunkSha256: [] }), /list of 1 hashes for 2 bytes/],
    ['another hash for the only chunk', file({ chunkSha256: [hash] }), /only chunk/],
    ['size 0 with a hash of something', file({ size: 0, chunkSha256: [], sha256: hash }), /empty file/],
    ['size 0 with a chunk', file({ size: 0, sha256: EMPTY_SHA256 }), /list of 0 hashes/],
    ['too small a sum', { ...good, totalBytes: 8 }, /totalBytes is 8, but the files have 9/],
    ['the same path in capitals', withPaths('onnx/a', 'onnx/A'), /are the same file/],
    ['a file and a folder', withPaths('a', 'a/b'), /"a" is both/],
    ['a folder and a file', withPaths('a/b/c', 'a/b'), /"a\/b" is both/],
    ['a file and a folder in capitals', withPaths('a/B', 'a/b/c'), /both a file and a folder/],
    ['folders that differ in case', withPaths('A/x', 'a/y'), /differ only in case/]
  ]
  for (const [name, value, message] of cases) {
    t.throws(() => checkManifest(value), { name: 'ManifestError', message }, name)
  }
})

t.test('the number of files', async (t) => {
  const many = (n: number): ModelManifest =>
    withPaths(...Array.from({ length: n }, (_, i) => `d/${i % 100}/f${i}`))
  t.equal(checkManifest(many(16_384)).files.length, 16_384)
  t.throws(() => checkManifest(many(16_385)), { message: /files must NOT have more than 16384/ })
})

t.test('the sum of large files', async (t) => {
  const files = [big('a', CHUNK_BYTES * 3), big('b', CHUNK_BYTES * 3)]
  t.throws(() => checkManifest({ ...good, files, totalBytes: CHUNK_BYTES * 6 - 1 }),
    { message: /100663296 bytes/ })
  t.ok(checkManifest({ ...good, files, totalBytes: CHUNK_BYTES * 6 }))
})

t.test('the digest', async (t) => {
  const digest = manifestDigest(good)
  t.match(digest, /^[0-9a-f]{64}$/)
  const line = (path: string, text: string): string =>
    `${path}\t${text.length}\t${sha256(text)}\t${text === '' ? '' : sha256(text)}\n`
  const text = 'svc manifest 1\nacme/x\n' +
    line('config.json', '{}') + line('empty.txt', '') + line('onnx/model.onnx', 'weights')
  t.equal(digest, sha256(text), 'nodes of all versions agree on it')
  t.equal(manifestDigest({ ...good, files: [...good.files].reverse() }), digest, 'the order does not count')
  t.equal(manifestDigest({ ...good, revision: 'other' }), digest, 'nor does the revision')
  t.not(manifestDigest({ ...good, modelId: 'acme/y' }), digest)
  const [first, ...rest] = good.files
  const other = { ...good, files: [{ ...first!, chunkSha256: [hash] }, ...rest] }
  t.not(manifestDigest(other), digest, 'the hashes of chunks, by which they are verified, count')
  const others = [{ 'config.json': '{ }' }, { 'Config.json': '{}' }]
  for (const config of others) {
    const other = manifestOf('acme/x', { ...config, 'onnx/model.onnx': 'weights', 'empty.txt': '' })
    t.not(manifestDigest(other), digest, 'each byte and each name counts')
  }
})

t.test('the table of chunks', async (t) => {
  const manifest = withFiles([
    entryOf('e0', ''), big('a', CHUNK_BYTES * 2 + 5), entryOf('e1', ''), entryOf('e2', ''),
    entryOf('s', 'x'), big('b', CHUNK_BYTES), entryOf('e3', '')
  ])
  const table = chunksOf(manifest)
  t.equal(table.count, 5)
  const seen = Array.from({ length: table.count }, (_, i) => {
    const { file, index, start, end } = table.at(i)
    return [file.path, index, start, end]
  })
  t.same(seen, [
    ['a', 0, 0, CHUNK_BYTES], ['a', 1, CHUNK_BYTES, 2 * CHUNK_BYTES],
    ['a', 2, 2 * CHUNK_BYTES, 2 * CHUNK_BYTES + 5],
    ['s', 0, 0, 1], ['b', 0, 0, CHUNK_BYTES]
  ])
  t.same(table.of('a'), { first: 0, count: 3 })
  t.same(table.of('e1'), { first: 3, count: 0 })
  t.same(table.of('b'), { first: 4, count: 1 })
  t.equal(chunksOf(withFiles([entryOf('e', '')])).count, 0)
})
