/** Scenarios on one node whose settings, plugins, disk and tokens are changed. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ask } from '../node/http.js'
import { folder, startNode, until, writeConfig, type TestNode } from '../node/kit.js'
import { freePorts } from '../node/ports.js'
import { runAt } from './harness.js'
import { answers, brokenLink, chainAt, hasCode, pluginsOf, weakPlugin, type Weak } from './rig.js'
import { group, type Cause, type Fault, type Host, type Scenario } from './types.js'
import type { Test } from 'tap'

const VOICE = 'acme/voice'

interface Settings { plugins?: Record<string, object>, env?: Record<string, string>, [more: string]: unknown }

/** One node that is restarted with other settings. */
interface Solo {
  readonly host: Host
  readonly weak: Weak
  /** Restarts the node with these settings in addition to its basic ones. */
  with (settings?: Settings): Promise<void>
  /** Restarts with the existing svc.yaml. */
  restart (env?: Record<string, string>): Promise<void>
}

async function startSolo (t: Test, home = join(folder(t), 'home')): Promise<Solo> {
  const weak = weakPlugin(t)
  const [port] = await freePorts(1)
  let node: TestNode | undefined
  const restart = async (env: Record<string, string> = {}): Promise<void> => {
    if (node !== undefined) {
      process.kill(node.child.pid, 'SIGTERM')
      await node.child.ended
      await node.kill()
    }
    node = await startNode(t, { home, env, ready: false, args: ['--port', String(port)] })
  }
  const solo: Solo = {
    weak, restart,
    host: { name: 'n1', home, get node () { return node! } },
    async with ({ plugins, env, ...more } = {}) {
      writeConfig(home, { name: 'n1', cluster: { discovery: false }, ...more,
        plugins: pluginsOf(weak, plugins) })
      await restart(env)
    }
  }
  await solo.with()
  return solo
}

const fault = (solo: Solo, ask: Fault['ask'], causes: readonly Cause[], more: Partial<Fault> = {}): Fault =>
  ({
    at: [solo.host], ask, truth: { kind: 'fault', causes }, repair: async () => { await solo.with() }, ...more
  })

/** Switches a plugin off; the remedy switches it on and restarts the node. */
const off = (plugin: string, ask: Fault['ask']): Scenario<Solo> => ({
  name: `the plugin ${plugin} is off`,
  break: async (solo) => {
    // The placement plugin must place no model when it is switched on again.
    const more = plugin === 'placement' ? { autoplace: [] } : {}
    await solo.with({ plugins: { [plugin]: { enabled: false, ...more } } })
    return fault(solo, ask, [{ codes: ['plugin_off', 'plugin_disabled'], names: [plugin],
      says: /\boff\b|disabled/i,
      unknown: true }], {
      mend: {
        command: new RegExp(`svc plugin enable ${plugin}`),
        run: async (command) => { await runAt(solo.host, command); await solo.restart() },
        holds: async () => { await until(`${plugin} to be on`, async () => await isOn(solo, plugin)) }
      }
    })
  }
})

async function isOn (solo: Solo, plugin: string): Promise<boolean> {
  const { plugins } = (await ask(solo.host.node, '/v1/plugins')).json as {
    plugins: { name: string, enabled: boolean }[] }
  return plugins.find(({ name }) => name === plugin)?.enabled === true
}

/** A scenario in which settings cause a health code; the remedy restores the settings. */
const ill = (name: string, code: string, settings: Settings, ask: Fault['ask'],
  command: RegExp): Scenario<Solo> => ({
  name,
  break: async (solo) => {
    await solo.with(settings)
    const { node } = solo.host
    await hasCode(solo.host, node.nodeId, code)
    return fault(solo, ask, [{ codes: [code], names: [], says: new RegExp(code.replaceAll('_', '.'), 'i') }],
      {
        mend: { command, run: async () => { await solo.with() },
          holds: async () => { await hasCode(solo.host, solo.host.node.nodeId, code, false) } }
      })
  }
})

interface Token { token: string, record: { id: string } }

const tokenOf = async (solo: Solo, body: object): Promise<Token> =>
  (await ask(solo.host.node, '/v1/tokens', { body })).json as Token

/** A refused request with a token, and a question about that token. */
async function refused (solo: Solo, label: string, codes: string[], says: RegExp): Promise<Fault> {
  const ask: Fault['ask'] = [`why is the token ${label} refused?`,
    `clients with the token ${label} get an error, why`, `token ${label} 401?`]
  const make = async (): Promise<void> => { await runAt(solo.host, `svc token create ${label}2`) }
  return fault(solo, ask, [{ codes, names: [label], says }], {
    repair: async () => {},
    mend: { command: /svc token create/, run: make, holds: async () => { await isOn(solo, 'access') } }
  })
}

const scenarios: Scenario<Solo>[] = [
  {
    name: 'healthy: one fresh node',
    break: async (solo) => {
      await until('it to be ready', async () => (await ask(solo.host.node, '/readyz')).status === 200)
      return { at: [solo.host], truth: { kind: 'healthy' },
        ask: ['is everything fine?', 'what is wrong with this node?', 'problem?'] }
    }
  },
  off('chat', ['why can I not chat?', 'chat completions answer 404, what is wrong', 'chat borken']),
  off('capabilities-tts', ['why can nothing be spoken?', 'why does svc say not work', 'no speech, why']),
  off('event-log', ['why are there no events?', 'where is the event log', 'events missing']),
  off('tracing', ['why are there no traces?', 'where did the time of my requests go? I see no traces',
    'traces gone']),
  off('diagnostics', ['why does svc capture not work?', 'the diagnostics page is empty, why',
    'diagnostics 404']),
  off('placement', ['why can I not place a model?', 'svc place does not work, why', 'place 404']),
  off('logs', ['why can I not see the logs?', 'svc logs shows nothing, why', 'logs 404']),
  off('staging', ['why can I not pull a model?', 'svc pull does not work here, why', 'pull 404']),
  ill('a backend that is not there', 'backend_override_conflict',
    { plugins: { runners: { backends: { 'onnx-tts': 'cuda' } } } },
    ['is the configuration right?', 'does this node have a problem with its GPU?', 'backends wrong?'],
    /plugins\.runners\.backends/),
  ill('an engine binary that cannot be used', 'invalid_engine_binary',
    { env: { SVC_LLAMA_SERVER_BIN: '/nowhere/llama-server' } },
    ['what is wrong with this node?', 'why is llama-server not used?', 'llama-server not wrking'],
    /SVC_LLAMA_SERVER_BIN|SVC_<?ENGINE>?_SERVER_BIN/),
  {
    name: 'no store is configured',
    break: async (solo) => {
      await solo.with()
      const answer = await ask(solo.host.node, '/store/models/acme/new/stage', { body: {} })
      if (answer.status !== 503) throw new Error(`${answer.status} ${answer.text}`)
      const asks = [
        'why can I not stage acme/new?', 'svc stage says store_not_configured', 'no store??'
      ] as const
      return fault(solo, asks,
        [{ codes: ['store_not_configured', 'no_store'], names: [], says: /store/i }], {
          mend: {
            command: /svc config set model_store\.store_path/,
            run: async () => {
              await runAt(solo.host, `svc config set model_store.store_path ${join(solo.host.home, 'store')}`)
              await solo.restart()
            },
            holds: async () => {
              await until('a store', async () =>
                (await ask(solo.host.node, '/store/health')).status === 200)
            }
          }
        })
    }
  },
  {
    name: 'a card that cannot be read',
    break: async (solo) => {
      const card = join(solo.weak.module, '../acme/reader/card.yaml')
      const whole = readFileSync(card)
      writeFileSync(card, 'modelId: acme/reader\ntasks: [')
      await solo.with()
      await chainAt([solo.host], 'acme/reader', 'card')
      return fault(solo, ['why does acme/reader not answer?', 'acme/reader is listed and cannot be used, why',
        'acme/reader card?'], [{ codes: ['card_broken', 'card_invalid', 'bad_card'], names: ['acme/reader'],
        says: /card/i }], { repair: async () => {
        writeFileSync(card, whole)
        await solo.with()
      } })
    }
  },
  {
    name: 'placed by itself, and unknown',
    break: async (solo) => {
      await solo.with({ plugins: { placement: { autoplace: ['acme/nope'] } } })
      await until('it to wait', async () => await brokenLink(solo.host, 'acme/nope') !== null)
      const over = async (): Promise<void> => {
        await solo.with()
        await runAt(solo.host, 'svc stop acme/nope')
      }
      const ask: Fault['ask'] = ['why does acme/nope not start by itself?',
        'autoplace lists acme/nope, why is it not there', 'acme/nope missing']
      const cause = { codes: ['model_unknown'], names: ['acme/nope'], says: /no model|unknown|not known/i }
      return fault(solo, ask, [cause], { repair: over,
        mend: { command: /svc pull acme\/nope/, run: over,
          holds: async () => { await isOn(solo, 'access') } } })
    }
  },
  {
    name: 'a token that has expired',
    break: async (solo) => {
      const { token } = await tokenOf(solo, { label: 'phone', authorities: ['read'],
        expires: new Date(Date.now() + 1500).toISOString() })
      await until('its end', async () => (await ask(solo.host.node, '/state', { token })).status === 401)
      return await refused(solo, 'phone', ['token_expired'], /expired|ended|is over/i)
    }
  },
  {
    name: 'a token that was revoked',
    break: async (solo) => {
      const { token, record } = await tokenOf(solo, { label: 'tablet', authorities: ['read'] })
      await ask(solo.host.node, `/v1/tokens/${record.id}`, { method: 'DELETE' })
      await until('its end', async () => (await ask(solo.host.node, '/state', { token })).status === 401)
      return await refused(solo, 'tablet', ['token_revoked'], /revoked/i)
    }
  },
  {
    name: 'a token that may not do what is asked',
    break: async (solo) => {
      const { token } = await tokenOf(solo, { label: 'wallboard', authorities: ['read'] })
      const { status } = await ask(solo.host.node, '/v1/tokens', { token })
      if (status !== 403) throw new Error(`${status}`)
      return await refused(solo, 'wallboard', ['missing_grant', 'token_authority', 'token_ok'],
        /may (only )?|authorit|read/i)
    }
  },
  {
    name: 'the asker may not see what the answer needs',
    break: async (solo) => {
      const { token } = await tokenOf(solo, { label: 'guest', authorities: ['read', 'invoke'] })
      return fault(solo, ['which settings of this node are changed?', 'show me the settings in force',
        'settings?'],
      [{ codes: ['missing_grant', 'not_allowed'], names: [], says: /operator|authorit/i, unknown: true }],
      { token, repair: async () => {} })
    }
  },
  {
    name: 'a port of log shipping where nobody listens',
    break: async (solo) => {
      const [port] = await freePorts(1)
      await solo.with({ logging: { ingest_url: `http://127.0.0.1:${port}/ingest` } })
      await until('shipping to have failed', async () =>
        (await ask(solo.host.node, '/v1/logs/cluster?limit=1000')).text.includes('cannot be shipped'))
      return fault(solo, ['why do the logs not arrive at our log server?',
        'are log lines shipped to the ingest_url?',
        'log shiping broken'], [{ codes: ['log_shipping_failed', 'log_shipping', 'logs_not_shipped'],
        names: [],
        says: /ship|ingest/i }],
      { mend: { command: /ingest_url/, run: async () => { await solo.with() },
        holds: async () => { await ask(solo.host.node, '/healthz') } } })
    }
  },
  {
    name: 'healthy: one node after all of it',
    break: async (solo) => {
      await solo.with()
      await runAt(solo.host, `svc place ${VOICE}`)
      await answers([solo.host], VOICE)
      return { at: [solo.host], truth: { kind: 'healthy' },
        ask: ['is something wrong with acme/voice?', 'is this node healthy?', 'ok now?'] }
    }
  }
]

export const solo = group<Solo>({ name: 'solo', scenarios, needs: async (t) => await startSolo(t) })

const GIB = 2 ** 30

/** A node whose home is on a separate disk. */
interface Tight extends Solo { resize (bytes: number): void }

const resized = (solo: Tight, code: string): Partial<Fault> => ({
  mend: { command: /free|svc purge|--home/i, run: async () => { solo.resize(20 * GIB) },
    holds: async () => { await hasCode(solo.host, solo.host.node.nodeId, code, false) } },
  repair: async () => { solo.resize(20 * GIB) }
})

/** Scenarios with full disks. They mount a disk, so they need root on Linux. */
const tightScenarios: Scenario<Tight>[] = [
  {
    name: 'the disk is full',
    break: async (solo) => {
      solo.resize(GIB)
      await hasCode(solo.host, solo.host.node.nodeId, 'disk_full')
      return fault(solo, ['what is wrong with this node?', 'how much room is left on the disks?', 'disk?'],
        [{ codes: ['disk_full'], names: [], says: /disk|GiB|room/i }], resized(solo, 'disk_full'))
    }
  },
  {
    name: 'the disk is nearly full',
    break: async (solo) => {
      solo.resize(5 * GIB)
      await hasCode(solo.host, solo.host.node.nodeId, 'disk_low')
      return fault(solo, ['do I have to clean up the disk?', 'any warnings on this node?',
        'is the disk gettng full'],
      [{ codes: ['disk_low'], names: [], says: /disk|GiB|room/i }], resized(solo, 'disk_low'))
    }
  },
  {
    name: 'events are only counted',
    break: async (solo) => {
      solo.resize(GIB)
      await until('the log to count only', async () => {
        await ask(solo.host.node, '/v1/tokens', { body: { label: 'noise', authorities: ['read'] } })
        const { mode } = (await ask(solo.host.node, '/events?limit=1')).json as { mode: string }
        return mode === 'counting-only'
      })
      return fault(solo, ['why are new events missing in the event log?', 'is the event log written?',
        'events not kept'],
      [{ codes: ['event_log_counting', 'event_log_degraded', 'disk_full'], names: [],
        says: /counted|disk/i }],
      resized(solo, 'disk_full'))
    }
  },
  {
    name: 'the disk is full, and a runner was given up',
    break: async (solo) => {
      solo.resize(GIB)
      solo.weak.starts(VOICE, 'exit')
      await runAt(solo.host, `svc place ${VOICE} --no-wait`)
      await chainAt([solo.host], VOICE, 'runner')
      await until('it to be given up', async () => {
        const { instanceFailures } = (await ask(solo.host.node,
          '/state')).json as { instanceFailures: unknown[] }
        return instanceFailures.length > 0
      })
      return fault(solo, ['what is broken here?', 'list all problems', 'whats wrong'],
        [{ codes: ['disk_full'], names: [] }, { codes: ['runner_failed', 'instance_failed'],
          names: [VOICE] }],
        { ...resized(solo, 'disk_full') })
    }
  }
]

export const tight = group<Tight>({
  name: 'tight', scenarios: tightScenarios,
  needs: async (t) => {
    const where = mkdtempSync(join(tmpdir(), 'svc-tight-'))
    const mount = (...args: string[]): void => {
      const { status, stderr } = spawnSync('mount', args, { encoding: 'utf8' })
      if (status !== 0) throw new Error(stderr)
    }
    mount('-t', 'tmpfs', '-o', 'size=20g', 'tmpfs', where)
    t.teardown(() => { spawnSync('umount', ['-l', where]); rmSync(where, { recursive: true, force: true }) })
    const solo = await startSolo(t, join(where, 'home'))
    return { ...solo, resize: (bytes) => { mount('-o', `remount,size=${bytes}`, where) } }
  }
})
