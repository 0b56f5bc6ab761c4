import { definePlugin } from '../../../kernel/index.js'
import { fakeNode, quickPace, type Answers, type FakeNode } from '../../../kernel/test/cli-helpers.js'
import { createPull } from '../cli/pull.js'
import { createStage } from '../cli/stage.js'
import { verbs } from '../cli/verbs.js'
import { engines } from './cards-kit.js'
import type { WaitClock } from '../../../kernel/cli/index.js'
import type { DownloadStatus } from '../store/download.js'
import type { ClusterCopy } from '../types.js'
export { quickPace, sendError, sendJson } from '../../../kernel/test/cli-helpers.js'

/** The verbs as a plugin, with this clock for waits. */
export function verbPlugin (pace: WaitClock = quickPace()): ReturnType<typeof definePlugin> {
  const paced = {
    ...verbs,
    pull: { ...verbs.pull, load: async () => ({ default: createPull(pace) }) },
    stage: { ...verbs.stage, load: async () => ({ default: createStage(pace) }) }
  }
  return definePlugin({
    name: 'models-verbs', version: '1.0.0', kernel: '^1.0.0', summary: 'The verbs about models.',
    verbs: paced, engines
  }, () => ({}))
}

export type { Answers, FakeNode as Rig }

/** A simulated node with an `svc` command. */
export const nodeOf = async (
  t: { teardown (fn: () => unknown): void }, answers: Answers
): Promise<FakeNode> =>
  await fakeNode(t, answers, (pace) => [verbPlugin(pace)])

export function download (more: Partial<DownloadStatus> = {}): DownloadStatus {
  return {
    modelId: 'acme/x', status: 'downloading', progress: 0, error: null, reason: null, downloadedBytes: 0,
    totalBytes: 1000, bytesPerSecond: 0, etaMs: null, source: null, revision: null,
    startedAt: null, ...more
  }
}

export function copy (more: Partial<ClusterCopy> = {}): ClusterCopy {
  return {
    modelId: 'acme/x', nodeId: 'n1', nodeName: 'node1', kind: 'staged', sizeBytes: 2048, digest: '',
    live: true, ...more
  }
}

/** A GET /state body for two nodes, with the given transfers. */
export function stateOf (downloads: Record<string, object[]> = {}, more: object = {}): object {
  return {
    localNodeId: 'n1',
    nodeIdentities: {
      n1: { friendlyName: 'node1', nodeInstallId: 'i1' }, n2: { friendlyName: 'node2', nodeInstallId: 'i2' }
    },
    lastSeen: { n1: '2026-01-01T00:00:10.000Z', n2: '2026-01-01T00:00:09.000Z' },
    downloads,
    ...more
  }
}
