import { join } from 'node:path'
import { readVersioned, writeVersioned } from '../../../kernel/index.js'
import { isOwn } from '../meeting.js'
import type { DeviceFile, KnownNode } from '../../../kernel/index.js'
import type { Meeting } from '../meeting.js'

/** What a device knows of its cluster from elsewhere. */
export interface Known {
  /** Where its nodes are met. */
  readonly meetings: readonly Meeting[]
  /** What the nodes' keys are known by: those of the pairing, and those that one of them has vouched for. */
  readonly fingerprints: ReadonlySet<string>
}

interface Stored { readonly meetings: readonly Meeting[], readonly fingerprints: readonly string[] }

const FORMAT = 1

const fileOf = (home: string, deviceId: string): string => join(home, 'devices', `${deviceId}.relay.json`)

/** Asks a node of the cluster as the device; throws what it is refused with. */
export type AskAsDevice = <T>(path: string) => Promise<T>

/** What the home of a device has kept. Throws HomeError. */
export function knownOf (home: string, { deviceId, nodes }: DeviceFile): Known {
  const stored = readVersioned<Stored>(fileOf(home, deviceId), FORMAT)
  return {
    meetings: stored?.meetings ?? [],
    fingerprints: new Set([...nodes.map(({ fingerprint }) => fingerprint), ...stored?.fingerprints ?? []])
  }
}

/**
 * Asks a node where all nodes of the cluster are met, and keeps what each of them has signed. One that is
 * away just now is kept as it was known. `proven`: what answers has shown a known key, as it does through a
 * relay; its word about new members and removed ones is then taken. Throws what it is refused with.
 */
export async function learn (
  home: string, device: DeviceFile, ask: AskAsDevice, { proven }: { readonly proven: boolean }
): Promise<Known> {
  const { routes } = await ask<{ routes: Meeting[] }>('/v1/relay/routes')
  const nodes = proven ? (await ask<{ nodes: KnownNode[] }>('/v1/devices/self')).nodes : undefined
  const before = knownOf(home, device)
  const fingerprints = nodes === undefined
    ? before.fingerprints
    : new Set(nodes.map(({ fingerprint }) => fingerprint))
  const told = routes.filter((meeting) => isOwn(meeting, fingerprints))
  const names = new Set(told.map(({ installId }) => installId))
  const kept = before.meetings.filter((meeting) =>
    !names.has(meeting.installId) && isOwn(meeting, fingerprints))
  const stored: Stored = { meetings: [...told, ...kept], fingerprints: [...fingerprints] }
  writeVersioned(fileOf(home, device.deviceId), FORMAT, stored)
  return { meetings: stored.meetings, fingerprints }
}
