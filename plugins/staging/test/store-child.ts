/** For store-crash.test.ts: a store in a process of its own that starts one download and prints its bytes. */
import { systemClock } from '../../../kernel/index.js'
import { ModelRoot } from '../files/root.js'
import { createHubClient } from '../hub/client.js'
import { openStore } from '../store/store.js'
import { derive, memoryLog } from './store-kit.js'

interface Setup { folder: string, modelId: string, source?: string, url?: string, cdnHost?: string }

const { folder, modelId, source, url, cdnHost } = JSON.parse(process.argv[2] ?? '') as Setup
const random = (): number => 0
const store = await openStore({
  root: new ModelRoot({ root: folder, clock: systemClock }),
  clock: systemClock,
  random,
  hub: url === undefined
    ? null
    : createHubClient({ url, redirectHosts: [cdnHost ?? ''], clock: systemClock, random }),
  derive,
  admit: async (_job, run) => await run(),
  log: memoryLog()
})
const job = store.start(modelId, source === undefined ? {} : { source })
setInterval(() => { process.stdout.write(`${job.status().downloadedBytes}\n`) }, 5)
