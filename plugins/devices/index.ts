import { definePlugin, inContact, type Section } from '../../kernel/index.js'
import { Bearers } from './bearers.js'
import { DeviceStore } from './store.js'
import { deviceCommands, entriesToPublish } from './cluster.js'
import { entrySchema, hasExpired, type Entry } from './grants.js'
import { createHandlers } from './handlers.js'
import { manifest, type DevicesContext } from './manifest.js'
import { DeviceNotes } from './notes.js'
import { Pairing } from './pairing.js'
import { DeviceScheme } from './scheme.js'
import { SignIns } from './sign-in.js'
import { DeviceValidity, CHECK_MS } from './validity.js'

const COLLECT_MS = 3_600_000
const WRITE_MS = 5000

export default definePlugin(manifest, (ctx) => {
  const { clock, log, node, deps: { callers, cluster, identity, session } } = ctx
  const section = ctx.sections.devices as unknown as Section<Entry>
  const book = new DeviceStore({ home: node.home, clock, log, problem: ctx.checker(entrySchema) })
  const notes = new DeviceNotes({ home: node.home, clock, log })
  const standing = new DeviceValidity({
    book, notes, clock, identity,
    hears: () => inContact(session, cluster)
  })
  const bearers = new Bearers(clock)
  const pairing = new Pairing({ clock, identity, error: ctx.error })
  const signIns = new SignIns({
    clock, identity, error: ctx.error, stands: (id) => ctx.deps.tokens.stands(id)
  })
  const noteUse = (deviceId: string): void => {
    const day = new Date(clock.now()).toISOString().slice(0, 10)
    if (notes.noteUse(deviceId, day)) ctx.sections.deviceUse.put(deviceId, day)
  }
  const scheme = new DeviceScheme({
    clock, nodeId: node.nodeId, identity, standing, bearers, used: noteUse, error: ctx.error
  })
  ctx.effect('credentials of devices', callers.register(scheme))
  const sync = createSync(ctx, section, book)
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
    signIns.tidy()
  })
  ctx.effect('the open pairing', () => { pairing.close() })
  ctx.effect('browsers that sign in', () => { signIns.close() })
  ctx.every('expired devices', COLLECT_MS, () => {
    for (const id of book.collect()) {
      notes.forget(id)
      ctx.sections.deviceUse.remove(id)
    }
    sync.collect()
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
    routes: createHandlers(ctx, { bearers, book, notes, pairing, signIns, standing, hear: sync.hear }),
    commands: deviceCommands({ section, clock, error: ctx.error }),
    services: {
      devices: {
        deviceWith: (key) => standing.deviceWith(key),
        stands: (deviceId) => typeof standing.of(deviceId) !== 'string'
      }
    }
  }
})

/** Synchronises a node's list of devices with the cluster's document. */
function createSync (ctx: DevicesContext, section: Section<Entry>, book: DeviceStore) {
  const { clock, log, deps: { session } } = ctx
  let telling = false
  const inDocument = (): Map<string, Entry> =>
    new Map([...section.entries()].map(({ key, value }) => [key, value]))
  /** Sends the master any entries that the cluster's document lacks. */
  const keep = async (entries: readonly Entry[]): Promise<void> => {
    await ctx.command('keepDevices', { entries: entries as never })
  }
  const tell = async (): Promise<void> => {
    if (telling || session.masterNodeId === null) return
    const known = inDocument()
    telling = true
    try {
      for (const part of entriesToPublish(book.entries(), (id) => known.get(id))) await keep(part)
    } catch (err) {
      // Without a master this fails; it is retried with the next session and every ten seconds.
      log.debug({ err }, 'the device entries of this node could not be stored in the cluster yet')
    } finally {
      telling = false
    }
  }
  return {
    hear: () => { book.merge(inDocument().values()) },
    tell: () => { void tell() },
    /** On the master: removes expired entries from the document. */
    collect () {
      const over = [...section.entries()].some(({ value }) => hasExpired(value, clock.now()))
      if (!over || !session.isMaster) return
      keep([]).catch((err: unknown) => { log.debug({ err }, 'expired devices could not be removed yet') })
    }
  }
}
