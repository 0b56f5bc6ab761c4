import t from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { ask, refusal } from './http.js'
import { pick, until } from './kit.js'
import {
  CHUNK, copiesOf, folderOf, incoming, isCopy, listing, makeModel, MIB, pull, put, sha, stage, startSite,
  svcAt, type Place
} from './staging-kit.js'

t.test('three nodes and a store', async (t) => {
  const site = await startSite(t, { nodes: 3 })
  const [first, second, third] = site.nodes as [Place, Place, Place]
  const all = site.nodes

  await t.test('a folder, from the pull to the removal, over HTTP', async (t) => {
    const model = makeModel(t, 'acme/flow', {
      'weights.data': pick(20, 60) * MIB, 'sub/deep/more.data': 3 * MIB + 1, 'empty.txt': Buffer.alloc(0)
    })
    const { modelId } = model
    const done = await pull(second, modelId, { source: pathToFileURL(model.folder).href })
    t.match(done, { status: 'complete', progress: 1, error: null, reason: null },
      'a node that is no store host')
    t.ok(isCopy(folderOf(site.store, modelId), model.sha256), 'every file is in the store')
    t.strictSame(incoming(site.store), [], 'nothing is under way')

    const staged = await stage(third, modelId, [second, third])
    t.match(staged, [{ nodeId: second.node.nodeId, status: 'complete', error: null },
      { nodeId: third.node.nodeId, status: 'complete', error: null }])
    for (const node of [second, third]) {
      t.ok(isCopy(folderOf(node.staging, modelId), model.sha256), `${node.name} has every file`)
    }
    for (const node of all) {
      const copies = await until(`${node.name} to know all copies`, async () => {
        const found = await copiesOf(node, modelId)
        // Progress is reported once a second, so a transfer may still be listed beside its finished copy.
        return found.length === 3 && found.every(({ kind }) => kind !== 'receiving') && found
      })
      t.strictSame(copies.map(({ kind, nodeName, live }) => ({ kind, nodeName, live }))
        .sort((a, b) => a.nodeName < b.nodeName ? -1 : 1), [
        { kind: 'store', nodeName: 'n1', live: true }, { kind: 'staged', nodeName: 'n2', live: true },
        { kind: 'staged', nodeName: 'n3', live: true }], `copies as ${node.name} says`)
      t.equal(new Set(copies.map(({ digest }) => digest)).size, 1)
      t.ok(copies.every(({ sizeBytes }) => sizeBytes === model.bytes))
      const { entries } = (await node.ask('/store/registry')).json as { entries: Record<string, unknown>[] }
      t.match(entries.filter((entry) => entry['model_id'] === modelId), [{
        total_bytes: model.bytes, store_path: folderOf(site.store, modelId), downloaded_at: /^20/,
        cached_on_nodes: [second.node.nodeId, third.node.nodeId].sort()
      }].map((entry) => ({ ...entry, cached_on_nodes: Array })), `registry as ${node.name} says`)
      const { data } = (await node.ask('/v1/models')).json as { data: { id: string, installed: boolean }[] }
      t.match(data.find(({ id }) => id === modelId), { installed: true, tags: Array })
      t.match((await node.ask(`/models/${modelId}/card`)).json,
        { model_id: modelId, card: { modelId, files: { length: 3 } } }, 'with its files')
    }
    const storage = (await third.ask('/store/storage')).json as { stagedModels: { modelId: string }[] }
    t.match(storage, { stagingRoot: third.staging, stagedTotalBytes: Number, stagedModels: [{ modelId,
      directory: folderOf(third.staging, modelId), sizeBytes: Number, inUse: false, in_use: false }] })

    await t.test('manifest and files from any node', async (t) => {
      const path = `/store/models/${modelId}/files/weights.data`
      const bytes = readFileSync(join(model.folder, 'weights.data'))
      for (const node of all) {
        const { json } = await node.ask(`/store/models/${modelId}/manifest`)
        const { files, ...head } = json as { files: { path: string, sha256: string,
          chunkSha256: string[] }[] }
        t.match(head, { modelId, totalBytes: model.bytes, chunkBytes: CHUNK })
        t.strictSame(Object.fromEntries(files.map((file) => [file.path, file.sha256])), model.sha256)
        t.equal(files.find((file) => file.path === 'weights.data')!.chunkSha256[1],
          sha(bytes.subarray(CHUNK, 2 * CHUNK)), 'the hash of the second chunk')
        const etag = `"${model.sha256['weights.data']!}"`
        const whole = await node.ask(path)
        t.match(whole, { status: 200, headers: { etag, 'content-length': String(bytes.length) } })
        t.equal(sha(whole.bytes), model.sha256['weights.data'])
        const part = await node.ask(path, { headers: { range: 'bytes=1000-1999' } })
        t.match(part, { status: 206, headers: { etag, 'content-length': '1000',
          'content-range': `bytes 1000-1999/${bytes.length}` } })
        t.ok(part.bytes.equals(bytes.subarray(1000, 2000)))
        const last = await node.ask(path, { headers: { range: 'bytes=-7', 'if-range': etag } })
        t.equal(last.status, 206)
        t.ok(last.bytes.equals(bytes.subarray(-7)))
        const other = await node.ask(path, { headers: { range: 'bytes=0-9', 'if-range': '"0"' } })
        t.strictSame([other.status, other.bytes.length], [200, bytes.length], 'another version: all of it')
        const beyond = await node.ask(path, { headers: { range: `bytes=${bytes.length}-` } })
        t.equal(beyond.status, 416)
        t.equal(refusal(beyond)?.reason, 'range_not_satisfiable')
        const empty = await node.ask(`/store/models/${modelId}/files/empty.txt`)
        t.match(empty, { status: 200, text: '' })
        const deep = await node.ask(`/store/models/${modelId}/files/sub/deep/more.data`)
        t.equal(sha(deep.bytes), model.sha256['sub/deep/more.data'])
        t.equal((await node.ask(`/store/models/${modelId}/files/no.data`)).status, 404)
        t.equal((await node.ask('/store/models/acme/none/manifest')).status, 404)
        t.equal((await node.ask(`/store/models/acme%2Fflow/files/empty.txt`)).status, 200, 'id with %2F')
      }
    })

    const purged = (await second.ask('/store/purge-staging', { body: { modelId } })).json as
      { nodes: { nodeId: string, removed: string[], freedBytes: number }[] }
    t.match(purged.nodes.filter(({ removed }) => removed.length > 0).map(({ removed, freedBytes }) =>
      ({ removed, freed: freedBytes >= model.bytes })),
    [{ removed: [modelId], freed: true }, { removed: [modelId], freed: true }])
    t.equal(purged.nodes.length, 3, 'every node answers')
    for (const node of [second, third]) t.strictSame(listing(node.staging), [], `${node.name} has nothing`)
    t.ok(isCopy(folderOf(site.store, modelId), model.sha256), 'the store keeps its own')

    t.match(await stage(first, modelId, [third]), [{ status: 'complete' }])
    t.match((await third.ask(`/store/models/${modelId}`, { method: 'DELETE' })).json,
      { modelId, deleted: true })
    t.strictSame(listing(third.staging), [], 'a removal takes staged copies with it')
    t.strictSame(listing(site.store), [])
    t.equal((await third.ask(`/store/models/${modelId}`, { method: 'DELETE' })).status, 404)
    for (const node of all) {
      await until(`${node.name} to forget it`, async () => (await copiesOf(node, modelId)).length === 0)
      t.equal((await node.ask(`/store/models/${modelId}/manifest`)).status, 404)
    }
    t.match(await stage(second, modelId, [second]), [{ status: 'failed', reason: 'model_not_found' }])
  })

  await t.test('the same on the command line', async (t) => {
    const model = makeModel(t, 'acme/cli', { 'weights.data': 17 * MIB })
    const said = await svcAt(second, ['pull', model.folder])
    t.equal(said.status, 0, said.stderr)
    t.match(said.stdout, /acme\/cli is in the store: 17/)
    const staged = await svcAt(first, ['stage', 'acme/cli', '--node', 'n2', 'n3'])
    t.equal(staged.status, 0, staged.stderr)
    for (const name of ['n2', 'n3']) t.match(staged.stdout, new RegExp(`${name} +complete`))
    for (const node of [second, third]) t.ok(isCopy(folderOf(node.staging, 'acme/cli'), model.sha256))
    const listed = await until('svc ls to show all', async () => {
      const { stdout } = await svcAt(third, ['ls'])
      return /acme\/cli.*staged@n2,n3/.test(stdout) && stdout
    })
    t.match(listed, /acme\/cli +17\S* MiB +store@n1, staged@n2,n3 +installed/)
    t.match(JSON.parse((await svcAt(third, ['show', 'acme/cli', '--json'])).stdout), { model_id: 'acme/cli' })
    const { stdout } = await svcAt(third, ['purge', '-y', 'acme/cli'])
    for (const name of ['n2', 'n3']) t.match(stdout, new RegExp(`${name} +acme/cli +- +17`))
    for (const node of [second, third]) t.strictSame(listing(node.staging), [])
    t.match(await svcAt(third, ['rm', '-y', 'acme/cli']), { status: 0 })
    t.match(await svcAt(third, ['rm', '-y', 'acme/cli']), { status: 3 })
    t.match(await svcAt(third, ['stage', 'acme/cli']), { status: 1 })
  })

  await t.test('many small files', async (t) => {
    // files-many.test.ts and transfer-http.test.ts cover many files; only the long form repeats them here.
    const count = pick(500, 10_000)
    const files = Object.fromEntries(Array.from({ length: count }, (_, i) =>
      [`d${i % 50}/f${i}.txt`, Buffer.from(`file ${i} `.repeat(1 + i % 90))]))
    const model = makeModel(t, 'acme/many', { ...files, 'empty/nothing.txt': Buffer.alloc(0) })
    await put(site, model)
    t.match(await stage(second, 'acme/many', [second], { seconds: 80 }), [{ status: 'complete' }])
    t.ok(isCopy(folderOf(second.staging, 'acme/many'), model.sha256), `${count} files`)
    t.equal((await ask(second.node, '/store/models/acme/many', { method: 'DELETE' })).status, 200)
  })
})
