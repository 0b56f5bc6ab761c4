/**
 * Two nodes, a store on the first, and a stub hub: models that are missing, interrupted, wrong or too large.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startHub, type FakeHub } from '../../plugins/staging/test/hub-kit.js'
import { folder, sparing, until } from '../node/kit.js'
import {
  cardText, copiesOf, flip, folderOf, healthOf, makeModel, MIB, pull, put, stage, startSite, together,
  voiceFiles, type Place, type Site
} from '../node/staging-kit.js'
import { runAt } from './harness.js'
import { group, type Fault, type Scenario } from './types.js'
import type { Test } from 'tap'

const SANE = sparing(64 * MIB)
/** Environment in which a node requires more free space than any disk has. */
const TOO_MUCH = sparing(2 ** 50)

interface Stores extends Site { hub: FakeHub, first: Place, second: Place, t: Test }

const names = Array.from({ length: 8 }, (_, i) => `acme/hub${i + 1}`)

async function startStores (t: Test): Promise<Stores> {
  const hub = await startHub({ models: Object.fromEntries(names.map((id) =>
    [id, { files: voiceFiles(), licence: 'mit' }])) })
  t.teardown(() => hub.close())
  const site = await startSite(t, { env: () => SANE,
    config: () => ({ model_store: { hub: { enabled: true, url: hub.url,
      redirect_hosts: [hub.cdnHost] } } }) })
  const [first, second] = site.nodes as [Place, Place]
  return { ...site, hub, first, second, t }
}

/** A card that an engine here can run. */
const runnable = (modelId: string): Record<string, Buffer> => ({
  'card.yaml': Buffer.from(cardText(modelId, { engine: 'onnx-tts', tasks: ['tts'] }))
})

/** Waits until every node lists the model of the store. */
const stored = async ({ nodes }: Stores, modelId: string): Promise<void> => {
  await until(`${modelId} to be known everywhere`, async () =>
    (await Promise.all(nodes.map((one) => copiesOf(one, modelId)))).every((copies) => copies.length > 0))
}

/** A failed download, which succeeds once the hub works again. */
const failedPull = (name: string, modelId: string, faults: object, says: RegExp,
  command: RegExp): Scenario<Stores> => ({
  name,
  break: async (site) => {
    site.hub.faults = faults
    const { status } = await pull(site.second, modelId, {}, 180)
    if (status !== 'failed') throw new Error(`the download is ${status}`)
    const again = async (): Promise<void> => {
      site.hub.faults = {}
      await runAt(site.first, `svc pull ${modelId}`)
    }
    return {
      at: site.nodes, repair: async () => { site.hub.faults = {} },
      ask: [`why did the pull of ${modelId} fail?`, `why can ${modelId} not be downloaded`,
        `${modelId} dowload failed`],
      truth: { kind: 'fault', causes: [{ codes: ['download_failed', 'hub_unreachable', 'model_gated', 'hash'],
        names: [modelId], says }] },
      mend: { command, run: again, holds: async () => { await stored(site, modelId) } }
    }
  }
})

const scenarios: Scenario<Stores>[] = [
  {
    name: 'healthy: two nodes with a store',
    break: async (site) => {
      await together(site.nodes)
      return { at: site.nodes, truth: { kind: 'healthy' },
        ask: ['is the store all right?', 'any trouble with disks or downloads?', 'evrything ok'] }
    }
  },
  {
    name: 'a model that was never pulled',
    break: async (site) => ({
      at: site.nodes, ask: ['why does acme/hub1 not answer?', 'how do I get acme/hub1 to run here',
        'acme/hub1?'],
      truth: { kind: 'fault', causes: [{ codes: ['model_unknown', 'files_missing', 'not_pulled'],
        names: ['acme/hub1'],
        says: /no model|not (known|here|pulled)|unknown|nobody/i }] },
      mend: { command: /svc pull acme\/hub1/, holds: async () => { await stored(site, 'acme/hub1') } },
      repair: async () => {}
    })
  },
  failedPull('the hub does not answer', 'acme/hub2', { status: 500 }, /hub|500|fetched|download/i,
    /svc pull acme\/hub2/),
  failedPull('the hub wants its terms accepted', 'acme/hub3', { gated: true }, /gated|terms|token/i,
    /SVC_HUB_TOKEN|terms|svc pull acme\/hub3/),
  failedPull('the hub gives a wrong byte', 'acme/hub4', { flipAt: 1000 },
    /hash|wrong|changed|corrupt|damaged/i,
    /svc pull acme\/hub4/),
  {
    name: 'a download was cancelled',
    break: async (site) => {
      const modelId = 'acme/hub5'
      await slowly(site, modelId)
      await runAt(site.first, `svc downloads cancel ${modelId}`)
      await until('its end', async () => await downloadOf(site, modelId) === 'cancelled')
      site.hub.faults = {}
      return {
        at: site.nodes, repair: async () => {},
        ask: [`what became of the download of ${modelId}?`, `${modelId} is not there though I pulled it`,
          `${modelId} canceled?`],
        truth: { kind: 'fault', causes: [{ codes: ['download_cancelled'], names: [modelId],
          says: /cancel/i }] },
        mend: { command: new RegExp(`svc pull ${modelId}`),
          holds: async () => { await stored(site, modelId) } }
      }
    }
  },
  {
    name: 'a download is paused',
    break: async (site) => {
      const modelId = 'acme/hub6'
      await slowly(site, modelId)
      await runAt(site.first, `svc downloads pause ${modelId}`)
      await until('the pause', async () => await downloadOf(site, modelId) === 'paused')
      site.hub.faults = {}
      return {
        at: site.nodes,
        repair: async () => {
          await runAt(site.first, `svc downloads resume ${modelId}`)
          await stored(site, modelId)
        },
        ask: [`why does the download of ${modelId} not go on?`, `${modelId} is stuck, what is the matter`,
          `${modelId} download stuck`],
        truth: { kind: 'fault', causes: [{ codes: ['download_paused'], names: [modelId], says: /paused/i }] },
        mend: { command: new RegExp(`svc downloads resume ${modelId}`),
          holds: async () => { await stored(site, modelId) } }
      }
    }
  },
  {
    name: 'how far a download is',
    break: async (site) => {
      const modelId = 'acme/hub7'
      await slowly(site, modelId)
      return {
        at: site.nodes, ask: ['what is being downloaded?', `how far is the download of ${modelId}?`,
          'downlods'],
        truth: { kind: 'fact', says: [/acme\/hub7/] },
        repair: async () => {
          site.hub.faults = {}; await runAt(site.first,
            `svc downloads cancel ${modelId}`)
        }
      }
    }
  },
  {
    name: 'a byte of the store has changed since',
    break: async (site) => {
      const model = makeModel(site.t, 'acme/flip', { 'weights.data': MIB, ...runnable('acme/flip') })
      await put(site, model)
      const file = join(folderOf(site.store, model.modelId), 'weights.data')
      flip(file, 5)
      const [ended] = await stage(site.second, model.modelId, [site.second])
      if (ended?.status !== 'failed') throw new Error(JSON.stringify(ended))
      await allSee(site)
      return {
        at: site.nodes, ...restaged(site, model.modelId, async () => { flip(file, 5) }),
        ask: ['why did acme/flip not come to n2?', 'staging of acme/flip failed, why', 'acme/flip n2 fialed'],
        truth: { kind: 'fault', causes: [{ codes: ['download_failed', 'hash', 'files_damaged'],
          names: ['acme/flip'],
          says: /hash|damaged|changed/i }] }
      }
    }
  },
  {
    name: 'a model does not fit on the disk of a node',
    break: async (site) => {
      const model = makeModel(site.t, 'acme/big', { 'weights.data': MIB, ...runnable('acme/big') })
      await put(site, model)
      await again(site, site.second, TOO_MUCH)
      const [ended] = await stage(site.first, model.modelId, [site.second])
      if (ended?.reason !== 'no_safe_fit') throw new Error(JSON.stringify(ended))
      await allSee(site)
      const { repair, mend } = restaged(site, model.modelId,
        async () => { await again(site, site.second, SANE) })
      return {
        at: site.nodes, repair, mend: { ...mend, command: /free|svc purge|svc stage/i },
        ask: ['why did acme/big not come to n2?', 'n2 says download_failed, what is wrong',
          'acme/big on n2??'],
        truth: { kind: 'fault',
          causes: [{ codes: ['download_failed', 'no_safe_fit', 'does_not_fit', 'disk_full'],
            names: ['acme/big'], says: /fit|free|missing|GiB/i }] }
      }
    }
  },
  {
    name: 'the node with the store is killed',
    break: async (site) => {
      await site.first.kill()
      await until('it to be missed', async () => (await site.second.state()).cluster.liveNodes === 1)
      await until('the store to be out of reach', async () =>
        (await site.second.ask('/store/health')).status === 503)
      const back = async (): Promise<void> => { await site.first.start(); await together(site.nodes) }
      return {
        at: [site.second], repair: back,
        ask: ['why can I not pull anything?', 'where is the store?', 'store unreachble'],
        truth: { kind: 'fault', causes: [{ codes: ['store_unreachable', 'node_lost', 'store_lost'],
          names: ['n1'],
          says: /store|lost|gone/i }] },
        mend: { command: /svc up/, run: back, holds: async () => { await together(site.nodes) } }
      }
    }
  },
  {
    name: 'the folder of copies cannot be used',
    break: async (site) => {
      const file = join(folder(site.t), 'file')
      writeFileSync(file, '')
      await again(site, site.second, {}, { node_cache_path: join(file, 'below') })
      await until('its health to report it',
        async () => (await healthOf(site.second)).includes('staging_unusable'))
      return unusable(site, site.second, 'n2', async () => {
        rmSync(file)
        await again(site, site.second)
      })
    }
  },
  {
    name: 'the folder of the store is gone',
    break: async (site) => {
      await site.first.kill()
      rmSync(site.store, { recursive: true })
      writeFileSync(site.store, 'a file')
      await site.first.start()
      await until('its health to report it',
        async () => (await healthOf(site.first)).includes('staging_unusable'))
      await until('n2 to see n1', async () => (await site.second.state()).cluster.liveNodes === 2)
      return unusable(site, site.first, 'n1', async () => {
        rmSync(site.store)
        mkdirSync(site.store)
        await again(site, site.first)
      })
    }
  },
  {
    name: 'a second store',
    break: async (site) => {
      await again(site, site.second, {}, { model_store: { store_path: join(folder(site.t), 'second') } })
      const secondStore = async (): Promise<boolean> =>
        (await Promise.all(site.nodes.map(healthOf))).flat().includes('second_store')
      await until('the health to report it', secondStore)
      const back = async (): Promise<void> => { await again(site, site.second) }
      return {
        at: site.nodes, repair: back,
        ask: ['is the store set up right?', 'is there anything wrong with the settings?', 'two stores??'],
        truth: { kind: 'fault', causes: [{ codes: ['second_store'], names: [], says: /store/i }] },
        mend: { command: /store_path/, run: back,
          holds: async () => { await until('one store', async () => !await secondStore()) } }
      }
    }
  }
]

/** Restarts a node with additional settings. */
async function again (site: Stores, node: Place, env = {}, config = {}): Promise<void> {
  await node.kill()
  await node.start(config, env)
  await until('both to see each other', async () => (await Promise.all(site.nodes.map((one) => one.state())))
    .every((state) => state.cluster.liveNodes === 2 && state.masterNodeId !== null &&
      site.nodes.every((one) => state.topology.nodes.includes(one.node.nodeId))))
}

/** Starts a download that would take minutes. */
async function slowly (site: Stores, modelId: string): Promise<void> {
  site.hub.faults = { bytesPerSecond: 20_000 }
  const begun = await site.first.ask(`/store/models/${modelId}/download`, { body: {} })
  if (begun.status !== 200) throw new Error(begun.text)
  await until('it to be in progress', async () => await downloadOf(site, modelId) === 'downloading')
}

const downloadOf = async ({ first }: Stores, modelId: string): Promise<string> =>
  ((await first.ask(`/store/models/${modelId}/download/status`)).json as { status: string }).status

/** Waits until both nodes report that the copy to n2 failed. */
async function allSee ({ nodes, second }: Stores): Promise<void> {
  await until('both to list it', async () => (await Promise.all(nodes.map(async (one) => {
    const { nodeHealth } = (await one.ask('/state')).json as
      { nodeHealth: Record<string, { reasons: { code: string }[] }> }
    return nodeHealth[second.node.nodeId]?.reasons.some(({ code }) => code === 'download_failed') === true
  }))).every(Boolean))
}

/** Stages the failed model on n2 again after the cause has been fixed. */
function restaged (site: Stores, modelId: string, before: () => Promise<void>): Required<Pick<Fault,
  'mend' | 'repair'>> {
  return {
    repair: before,
    mend: {
      command: new RegExp(`svc (stage|pull) ${modelId}`),
      run: async () => { await before(); await runAt(site.first, `svc stage ${modelId} --node n2`) },
      holds: async () => {
        await until('the copy', async () => (await copiesOf(site.first, modelId)).some(({ nodeName, kind }) =>
          nodeName === 'n2' && kind === 'staged'))
        await until('a healthy n2', async () => !(await healthOf(site.second)).includes('download_failed'))
      }
    }
  }
}

function unusable (site: Stores, node: Place, name: string, back: () => Promise<void>): Fault {
  return {
    at: site.nodes, repair: back,
    ask: ['why are models not copied any more?', `what is wrong with ${name}?`, `${name} staging??`],
    truth: { kind: 'fault', causes: [{ codes: ['staging_unusable'], names: [],
      says: /cannot be used|folder/i }] },
    mend: { command: /node_cache_path|store_path|restart/, run: back,
      holds: async () => {
        await until('its health to be good', async () => !(await healthOf(node)).includes('staging_unusable'))
      } }
  }
}

export const stores = group<Stores>({ name: 'stores', scenarios, needs: startStores })
