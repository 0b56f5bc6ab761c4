import { definePlugin } from '../../kernel/index.js'
import { Bearers } from './bearers.js'
import { DeviceStore } from './store.js'
import { deviceCommands } from './cluster.js'
import { entrySchema } from './grants.js'
import { createHandlers } from './handlers.js'
import { manifest } from './manifest.js'
import { DeviceNotes } from './notes.js'
import { Pairing } from './pairing.js'
import { DeviceScheme } from './scheme.js'
import { DeviceValidity, CHECK_MS } from './validity.js'
import { createSync } from './sync.js'
import type { Entry } from './grants.js'
import type { Section } from '../../kernel/index.js'

const COLLECT_MS = 3_600_000
const WRITE_MS = 5000

export default definePlugin(manifest, (ctx) => {
  const { clock, log, node, deps: { callers, cluster, identity, session } } = ctx
  const section = ctx.sections.devices as unknown as Section<Entry>
  const book = new DeviceStore({ home: node.home, clock, log, problem: ctx.checker(entrySchema) })
  const notes = new DeviceNotes({ home: node.home, clock, log })
  const standing = new DeviceValidity({
    book, notes, clock, identity,
    hears: () => {
      const nodes = cluster.nodes()
      return session.masterNodeId !== null && nodes.filter(({ live }) => live).length * 2 >= nodes.length
    }
  })
  const bearers = new Bearers(clock)
  const pairing = new Pairing({ clock, identity, error: ctx.error })
  const noteUse = (deviceId: string): void => {
    const day = new Date(clock.now()).toISOString().slice(0, 10)
    if (notes.noteUse(deviceId, day)) ctx.sections.deviceUse.put(deviceId, day)
  }
  const scheme = new DeviceScheme({
    clock, nodeId: node.nodeId, identity, standing, bearers, used: noteUse, error: ctx.error
  })
  ctx.effect('credentials of devices', callers.register(scheme))
  const sync = createSync({
    section, book, log, clock, masterKnown: () => session.masterNodeId !== null,
    keep: async (entries) => { await ctx.command('keepDevices', { entries: entries as never }) }
  })
  ctx.effect('devices of the document', section.observe(sync.hear))
  const look = (): void => {
    standing.look()
    sync.tell()
  }
  ctx.effect('devices of a new session', session.onChange(look))
  ctx.every('contact with the cluster', CHECK_MS, () => {
    look()
    scheme.tidy()
    bearers.forget()
    // `view` also closes an expired pairing window, which ends a waiting confirmation.
    pairing.view()
  })
  ctx.effect('the open pairing', () => { pairing.close() })
  ctx.every('expired devices', COLLECT_MS, () => {
    for (const id of book.collect()) {
      notes.forget(id)
      ctx.sections.deviceUse.remove(id)
    }
    sync.collect(session.isMaster)
  })
  ctx.every('notes on devices', WRITE_MS, () => { notes.write() })
  ctx.effect('notes on devices', () => { notes.write() })
  sync.hear()
  look()
  for (const { grant } of book.entries()) {
    const day = grant === null ? null : notes.usedDay(grant.deviceId)
    if (grant !== null && day !== null) ctx.sections.deviceUse.put(grant.deviceId, day)
  }
  return {
    routes: createHandlers(ctx, { bearers, book, notes, pairing, standing, hear: sync.hear }),
    commands: deviceCommands({ section, clock, error: ctx.error }),
    services: {
      devices: {
        deviceWith: (key) => standing.deviceWith(key),
        stands: (deviceId) => typeof standing.of(deviceId) !== 'string'
      }
    }
  }
})
