// Keeps a store busy: models are staged and purged as fast as possible, as links on the store's own node and
// as transfers to the other nodes.
import { randomBytes } from 'node:crypto'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { root } from '../lib/paths.mjs'
import { until } from './processes.mjs'

const VOICE = join(root, 'plugins/capabilities-tts/voice')
const MIB = 1024 ** 2

/** A folder that is removed at teardown. */
export function scratch (t) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true }) })
  return folder
}

const succeeds = async (member, path, body) => {
  const answer = await member.ask(path, { method: 'POST', body, ms: 60_000 })
  return answer?.status === 200 ? answer.json : null
}

/** Pulls the bundled voice into the store under this id, enlarged by `padding` bytes. */
async function pull (t, host, modelId, padding) {
  const folder = join(scratch(t), 'model')
  cpSync(VOICE, folder, { recursive: true })
  if (padding > 0) writeFileSync(join(folder, 'padding.bin'), randomBytes(padding))
  const path = `/store/models/${modelId}/download`
  if (await succeeds(host, path, { source: pathToFileURL(folder).href }) === null) {
    throw new Error(`${modelId} cannot be pulled`)
  }
  await until(`${modelId} to be in the store`, async () => {
    const { status, error } = (await host.ask(`${path}/status`))?.json ?? {}
    if (error) throw new Error(`${modelId}: ${error}`)
    return status === 'complete'
  }, { seconds: 120 })
}

/** Stages a model on a node and purges it in a loop; calls `count` after each copy. */
async function copying (member, modelId, running, count) {
  while (running()) {
    const body = { nodeIds: [member.name], wait: true, timeout_seconds: 50 }
    const staged = await succeeds(member, `/store/models/${modelId}/stage`, body)
    if (staged?.nodes[0]?.status === 'complete') count()
    else await sleep(200)
    await succeeds(member, '/store/purge-staging', { modelId })
  }
}

/**
 * Fills the store. Returns `run`, which stages and purges models until its callback returns false, and
 * `counts` of the links and the MiB sent.
 */
export async function storeWork (t, host, others, { links, bytes }) {
  const linked = Array.from({ length: links }, (_, n) => `bench/linked-${n}`)
  for (const id of linked) await pull(t, host, id, 0)
  const sent = others.map((member, n) => ({ member, id: `bench/sent-${n}` }))
  for (const { id } of sent) await pull(t, host, id, bytes)
  const counts = { links: 0, sentMiB: 0 }
  return {
    counts,
    run: (running) => Promise.all([
      ...linked.map((id) => copying(host, id, running, () => { counts.links++ })),
      ...sent.map(({ member, id }) => copying(member, id, running, () => { counts.sentMiB += bytes / MIB }))
    ])
  }
}
