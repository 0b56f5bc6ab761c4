import { join } from 'node:path'
import { readVersioned, writeVersioned } from '../../../kernel/index.js'
import { isOwn, type RelayAddress } from '../relay-address.js'
import { plain } from '../../../kernel/cli/index.js'
import type { DeviceFile } from '../../devices/signing/device.js'
import type { KnownNode } from '../../devices/signing/protocol.js'
import type { DeviceNews } from '../../devices/service.js'

export interface KnownRelays {
  /** Signed relay addresses of the cluster's nodes. */
  readonly meetings: readonly RelayAddress[]
  /** Fingerprints of trusted node keys: from the pairing, and from member lists that trusted nodes sent. */
  readonly fingerprints: ReadonlySet<string>
}

interface Stored { readonly meetings: readonly RelayAddress[], readonly fingerprints: readonly string[] }

const FORMAT = 1

const fileOf = (home: string, deviceId: string): string => join(home, 'devices', `${deviceId}.relay.json`)

/** Sends a GET request to a node of the cluster as the device; throws the node's refusal. */
export type AskAsDevice = <T>(path: string) => Promise<T>

/** Reads the relays that a device has stored in its home folder. Throws HomeError. */
export function knownOf (home: string, { deviceId, nodes }: DeviceFile): KnownRelays {
  const stored = readVersioned<Stored>(fileOf(home, deviceId), FORMAT)
  return {
    meetings: stored?.meetings ?? [],
    fingerprints: new Set([...nodes.map(({ fingerprint }) => fingerprint), ...stored?.fingerprints ?? []])
  }
}

/**
 * Fetches the relay addresses of all nodes from one node and saves those that their own node has signed;
 * keeps the stored addresses of absent nodes. `proven`: that node has proven a known key, as it does through
 * a relay, so its list of members is trusted. Throws the node's refusal.
 */
export async function fetchRelays (
  home: string, device: DeviceFile, ask: AskAsDevice, { proven }: { readonly proven: boolean }
): Promise<KnownRelays> {
  const { routes } = await ask<{ routes: RelayAddress[] }>('/v1/relay/routes')
  const nodes = proven ? (await ask<{ nodes: KnownNode[] }>('/v1/devices/self')).nodes : undefined
  const before = knownOf(home, device)
  const fingerprints = nodes === undefined
    ? before.fingerprints
    : new Set(nodes.map(({ fingerprint }) => fingerprint))
  const fetched = routes.filter((meeting) => isOwn(meeting, fingerprints))
  const names = new Set(fetched.map(({ installId }) => installId))
  const retained = before.meetings.filter((meeting) =>
    !names.has(meeting.installId) && isOwn(meeting, fingerprints))
  const stored: Stored = { meetings: [...fetched, ...retained], fingerprints: [...fingerprints] }
  writeVersioned(fileOf(home, device.deviceId), FORMAT, stored)
  return { meetings: stored.meetings, fingerprints }
}

/** Updates the relay addresses in a device's file whenever the device has reached a node. */
export const relaySync: DeviceNews = {
  async run ({ ask, device, home }) {
    const { meetings } = await fetchRelays(home, device, ask, { proven: false })
    if (meetings.length === 0) return []
    const nodes = meetings.map(({ name, url }) => `${plain(name)} at ${plain(url)}`).join(', ')
    return [`To reach it from other networks, run  svc device serve  (${nodes})`]
  }
}
