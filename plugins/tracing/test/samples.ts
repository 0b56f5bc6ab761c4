import type { TraceRecord } from '../recording.js'
import type { ShownSpan, TraceSpan } from '../trace-file.js'

export const traceSpan = (fields: Partial<TraceSpan> = {}): TraceSpan => ({
  id: 0, parent: null, place: 0, name: 'request', category: 'request', startUs: 1000, durationUs: 9000,
  steps: 0, attrs: {},
  ...fields
})

export const shown = (fields: Partial<ShownSpan>): ShownSpan => ({
  name: 'parse', startUs: 0, durationUs: 10, rank: 0, category: 'api', nodeId: 'node-a', attrs: {}, ...fields
})

export const record = (fields: Partial<TraceRecord> = {}): TraceRecord => ({
  taskId: 'task-1',
  commandId: 'command-1',
  createdAt: '2026-01-01T00:00:00.000Z',
  modelId: 'acme/lm',
  taskKind: 'chat',
  durationUs: 9000,
  outcome: 'completed',
  reason: null,
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  parentSpanId: null,
  places: [
    { nodeId: 'node-a', name: 'alpha', process: 'node', rank: 0 },
    { nodeId: 'node-b', name: 'beta', process: 'runner', rank: 2 }
  ],
  clocks: [],
  droppedSpans: 0,
  spans: [
    traceSpan(),
    traceSpan({
      id: 1, parent: 0, place: 1, name: 'decode', category: 'decode', startUs: 2000, durationUs: 4000,
      steps: 4
    })
  ],
  ...fields
})
