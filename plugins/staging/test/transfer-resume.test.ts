import { link, mkdir, readFile, readdir, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { CHUNK_BYTES } from '../types.js'
import { MIB, contentOf, fetchInto, journalOf, manifestOf, memorySource, wrongFiles } from './transfer-kit.js'

const content = contentOf({
  'config.json': 700, 'empty.txt': 0, 'onnx/model.onnx': 2 * CHUNK_BYTES + 3 * MIB + 5
})
const manifest = manifestOf(content)

t.test('what is on disk is used again', async (t) => {
  const model = content.get('onnx/model.onnx')!
  const lay = async (folder: string, bytes: Buffer, journal?: string): Promise<void> => {
    await mkdir(join(folder, 'onnx'), { recursive: true })
    await writeFile(join(folder, 'onnx/model.onnx'), bytes)
    if (journal !== undefined) await writeFile(join(folder, '.svc-journal'), journal)
  }
  const flipped = Buffer.from(model)
  flipped[CHUNK_BYTES + 7]! ^= 1
  const other = manifestOf(contentOf({ x: 1 }))
  const tail = model.length - 2 * CHUNK_BYTES
  const cases: Array<[string, Buffer, string | undefined, number]> = [
    ['no journal, two chunks right', model.subarray(0, 2 * CHUNK_BYTES + MIB), undefined, tail],
    ['no journal, a chunk wrong', flipped, undefined, CHUNK_BYTES],
    ['no journal, the file too long', Buffer.concat([model, Buffer.alloc(99)]), undefined, 0],
    ['a journal of another manifest', flipped, journalOf(other, 'c 1', 'c 2'), CHUNK_BYTES],
    ['a part of a chunk', model.subarray(0, 3 * MIB), journalOf(manifest, `p 1 ${2 * MIB}`),
      model.length - 2 * MIB],
    ['a chunk and a part', model, journalOf(manifest, 'c 1', `p 2 ${MIB}`), model.length - CHUNK_BYTES - MIB],
    ['whole by its part line', model, journalOf(manifest, `p 1 ${CHUNK_BYTES}`), model.length - CHUNK_BYTES],
    ['the journal says more than there is', model.subarray(0, MIB), journalOf(manifest, 'c 1', `p 2 ${MIB}`),
      model.length],
    ['a wrong chunk claimed', flipped, journalOf(manifest, 'c 1', 'c 2', 'c 3'), CHUNK_BYTES],
    ['a torn line, garbage', model,
      journalOf(manifest, 'c 1', 'c', 'x 3', 'p 3 999999999999', 'c 99') + 'c', model.length - CHUNK_BYTES],
    ['not a journal', model, 'hello\n', 0]
  ]
  for (const [name, bytes, journal, toGo] of cases) {
    const folder = t.testdir()
    await lay(folder, bytes, journal)
    const source = memorySource(content)
    await fetchInto(folder, manifest, [source])
    t.same(await wrongFiles(folder, content), [], name)
    t.equal(source.given, toGo + 700, `${name}: bytes fetched`)
  }
  const folder = t.testdir()
  const spoilt = Buffer.concat([Buffer.alloc(MIB), model.subarray(MIB)])
  await lay(folder, spoilt, journalOf(manifest, `p 1 ${MIB}`))
  const source = memorySource(content)
  await fetchInto(folder, manifest, [source])
  t.same(await wrongFiles(folder, content), [], 'a kept part that is wrong is nobody\'s fault')
})

t.test('clears away what is not of the model, and keeps its own files', async (t) => {
  const outside = t.testdir({ precious: 'x' })
  const folder = join(outside, 'incoming')
  await mkdir(join(folder, 'old/deep'), { recursive: true })
  await mkdir(join(folder, 'config.json'), { recursive: true })
  await writeFile(join(folder, 'old/deep/file'), 'x')
  await writeFile(join(folder, 'onnx'), 'a file where a folder is to be')
  await writeFile(join(folder, '.svc-job.json'), '{}')
  await symlink(outside, join(folder, 'link'))
  await fetchInto(folder, manifest, [memorySource(content)])
  const expected = ['.svc-job.json', '.svc-journal', 'config.json', 'empty.txt', 'onnx']
  t.same((await readdir(folder)).sort(), expected)
  t.equal(await readFile(join(outside, 'precious'), 'utf8'), 'x', 'a link is removed, not followed')
})

t.test('what other nodes need to know: kept chunks count as got', async (t) => {
  const folder = t.testdir()
  await fetchInto(folder, manifest, [memorySource(content)])
  await truncate(join(folder, 'onnx/model.onnx'), CHUNK_BYTES)
  const held = new Set<number>()
  await fetchInto(folder, manifest, [memorySource(content)], { onChunk: (i) => { held.add(i) } })
  t.equal(held.size, 4)
})

t.test('a file with a further hard link is used as it is, or goes, and is never written to', async (t) => {
  const model = content.get('onnx/model.onnx')!
  for (const [name, bytes, toGo] of [
    ['right', model, 0], ['cut', model.subarray(0, CHUNK_BYTES), model.length],
    ['longer', Buffer.concat([model, Buffer.alloc(9)]), model.length]
  ] as [string, Buffer, number][]) {
    const top = t.testdir({ theirs: bytes, incoming: { onnx: {} } })
    const folder = join(top, 'incoming')
    await link(join(top, 'theirs'), join(folder, 'onnx/model.onnx'))
    const source = memorySource(content)
    await fetchInto(folder, manifest, [source])
    t.same(await wrongFiles(folder, content), [], name)
    t.equal(source.given, toGo + 700, `${name}: bytes fetched`)
    t.ok((await readFile(join(top, 'theirs'))).equals(bytes), `${name}: theirs stays`)
  }
})
