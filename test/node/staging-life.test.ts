import t from 'tap'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { skewed } from './cluster-kit.js'
import { pick, placeOn, until } from './kit.js'
import {
  cardText, copiesOf, folderOf, hashesOf, isCopy, join1, makeModel, MIB, pull, put, sha, stage, startSite,
  svcAt, together, transferOf, voiceFiles, voiceFolder, type Place
} from './staging-kit.js'

/** Skip reason for subtests that only `npm run test:faults` runs. */
const SHORT = pick<string | false>('only in the long form: npm run test:faults', false)

t.test('a store host that comes back without its store', async (t) => {
  const site = await startSite(t)
  const [first, second] = site.nodes as [Place, Place]
  const model = makeModel(t, 'acme/kept', { 'weights.data': pick(20, 60) * MIB,
    'sub/empty.txt': Buffer.alloc(0) })
  await put(site, model)
  t.match(await stage(first, model.modelId, [second]), [{ status: 'complete' }])
  const [{ digest } = { digest: '' }] = await copiesOf(first, model.modelId)
  await first.stop()
  rmSync(site.store, { recursive: true })
  await first.start()
  await together(site.nodes)
  const seen = await until('n2 to see that the store is empty', async () => {
    const copies = await copiesOf(second, model.modelId)
    return copies.every(({ kind }) => kind !== 'store') && copies
  })
  t.match(seen, [{ kind: 'staged', nodeName: 'n2', digest }])
  const self = await second.ask(`/store/models/${model.modelId}/files/weights.data?from=self`)
  t.equal(sha(self.bytes), model.sha256['weights.data'], 'the copy is of use')
  t.match(await stage(first, model.modelId, [first]), [{ status: 'failed', reason: 'model_not_found' }])
  const answer = await svcAt(first, ['pull', model.modelId, '--from', 'n2'])
  t.equal(answer.status, 0, answer.stderr)
  t.ok(isCopy(folderOf(site.store, model.modelId), model.sha256), 'the store has it again')
  const back = await until('both to be known', async () => {
    const copies = await copiesOf(first, model.modelId)
    return copies.length === 2 && copies
  })
  t.ok(back.every((copy) => copy.digest === digest), 'with the same digest')
  t.match(await stage(first, model.modelId, [first, second]),
    [{ status: 'complete' }, { status: 'complete' }])
})

t.test('a store of many models', { skip: SHORT }, async (t) => {
  const site = await startSite(t)
  const [first, second] = site.nodes as [Place, Place]
  const made = Array.from({ length: pick(30, 150) }, (_, i) => {
    const modelId = `acme/model-${i}`
    // These cards must be as long as those of real voices and language models.
    const card = Buffer.from(cardText(modelId, { description: 'What it is and what it does. '.repeat(60) }))
    return makeModel(t, modelId, { 'weights.data': 1000 + i, 'card.yaml': card })
  })
  for (const { modelId, folder } of made) {
    const end = await pull(first, modelId, { source: pathToFileURL(folder).href })
      .catch((error: Error) => ({ status: `${error.message}: ${first.node.child.stderr().slice(-1500)}` }))
    if (end.status === 'complete') continue
    t.fail(`the pull of ${modelId} ended with ${JSON.stringify(end)}`)
    return
  }
  for (const node of site.nodes) {
    const { entries } = (await node.ask('/store/registry')).json as { entries: { model_id: string }[] }
    t.equal(entries.filter((entry) => entry.model_id.startsWith('acme/')).length, made.length,
      `${node.name}: registry`)
    let seen = 0
    await until('the other node to list all', async () => {
      const { data } = (await node.ask('/v1/models')).json as { data: { id: string }[] }
      seen = data.filter(({ id }) => id.startsWith('acme/')).length
      return seen === made.length
    }, { seconds: 10 }).catch(() => {})
    t.equal(seen, made.length, `${node.name}: catalogue`)
  }
  const last = made.at(-1)!
  t.match(await stage(second, last.modelId, [second]), [{ status: 'complete', error: null }])
  t.ok(isCopy(folderOf(second.staging, last.modelId), last.sha256))
})

t.test('a copy in use', async (t) => {
  const site = await startSite(t, { started: 1 })
  const [first, second] = site.nodes as [Place, Place]
  await put({ ...site, nodes: [first] }, { modelId: 'acme/voice', folder: voiceFolder(t) })
  await join1(first, second)
  await together(site.nodes)
  await placeOn(second.node, 'acme/voice')
  t.ok(isCopy(folderOf(second.staging, 'acme/voice'), hashesOf(voiceFiles())),
    'it came from the store by itself')
  const spoken = await second.ask('/v1/audio/speech', { body: { model: 'acme/voice', input: 'It works.' } })
  t.equal(spoken.status, 200)
  t.match(spoken.headers['content-type'], /audio/)
  t.ok(spoken.bytes.length > 1000, 'and speaks')
  t.match((await second.ask('/store/storage')).json, { stagedModels: [{ modelId: 'acme/voice', inUse: true,
    in_use: true }] })
  const other = makeModel(t, 'acme/idle', { 'weights.data': MIB })
  await put(site, other)
  t.match(await stage(first, other.modelId, [second]), [{ status: 'complete' }])
  const { nodes } = (await first.ask('/store/purge-staging', { body: {} })).json as
    { nodes: { nodeId: string, removed: string[], skippedInUse: string[] }[] }
  t.match(nodes.find(({ nodeId }) => nodeId === second.node.nodeId),
    { removed: ['acme/idle'], skippedInUse: ['acme/voice'], error: null })
  t.ok(isCopy(folderOf(second.staging, 'acme/voice'), hashesOf(voiceFiles())), 'it stays')
  t.equal((await first.ask('/store/models/acme/voice', { method: 'DELETE' })).status, 200)
  t.ok(isCopy(folderOf(second.staging, 'acme/voice'), hashesOf(voiceFiles())),
    'also when the store lets it go')
  const again = await second.ask('/v1/audio/speech', { body: { model: 'acme/voice', input: 'Still.' } })
  t.equal(again.status, 200)
  const ready = (await second.ask('/v1/models')).json as { data: { id: string, ready: boolean }[] }
  t.match(ready.data.find(({ id }) => id === 'acme/voice'), { installed: true, ready: true })

  await t.test('an instance keeps the content that it was placed with', async (t) => {
    const files = { ...voiceFiles(), 'CMU-LICENCE.txt': Buffer.from('a newer text') }
    const newer = voiceFolder(t)
    writeFileSync(join(newer, 'CMU-LICENCE.txt'), files['CMU-LICENCE.txt'])
    await put(site, { modelId: 'acme/voice', folder: newer })
    await until('the new version to be known', async () =>
      new Set((await copiesOf(first, 'acme/voice')).map(({ digest }) => digest)).size === 2)
    const instance = await placeOn(second.node, 'acme/voice')
    const both = (): boolean[] => [isCopy(folderOf(second.staging, 'acme/voice'), hashesOf(voiceFiles())),
      isCopy(folderOf(join(second.staging, '.beside'), 'acme/voice'), hashesOf(files))]
    t.same(both(), [true, true], 'the new one is beside the old one')
    const { instances } = await second.state() as unknown as {
      instances: Record<string, { RingInstance: { modelDigest: string } }>
    }
    const pinned = Object.values(instances).map(({ RingInstance }) => RingInstance.modelDigest)
    t.equal(new Set(pinned).size, 2)
    for (const id of Object.keys(instances)) await first.ask(`/instance/${id}`, { method: 'DELETE' })
    t.ok(Object.hasOwn(instances, instance))
    await until('the new version to take the place of the old', () =>
      isCopy(folderOf(second.staging, 'acme/voice'), hashesOf(files)))
  })
})

t.test('the clock of the receiver is set back in the middle', { skip: SHORT }, async (t) => {
  const clock = skewed(t, 0)
  const site = await startSite(t, {
    config: () => ({ model_store: { upload_mib_per_second: 10 } }), env: (n) => n === 2 ? clock.env : {}
  })
  const [first, second] = site.nodes as [Place, Place]
  const model = makeModel(t, 'acme/clock', { 'weights.data': 20 * MIB })
  await put(site, model)
  await stage(first, model.modelId, [second], { wait: false })
  await until('some bytes', async () => ((await transferOf(second, model.modelId))?.bytes ?? 0) > MIB)
  clock.set(-3_600_000)
  t.match(await stage(first, model.modelId, [second]), [{ status: 'complete' }])
  t.ok(isCopy(folderOf(second.staging, model.modelId), model.sha256))
  t.match(await second.ask('/store/storage'), { status: 200 })
})
