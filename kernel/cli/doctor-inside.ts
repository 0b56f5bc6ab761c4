import { CliError } from './errors.js'
import { fail } from './doctor-host.js'
import {
  checkDiagnosis, checkEventLog, checkModels, checkPressure, checkStore, checkVolume
} from './doctor-nodes.js'
import type { Client } from './client.js'
import type { State } from './cluster-view.js'
import type { Check } from './doctor-host.js'
import type { Diagnosis, EventLogHead, StoreRoom, Volume } from './doctor-nodes.js'

/** What goes on inside the nodes: the checks, and what the nodes said of themselves, if anything. */
export interface Inside { checks: Check[], diagnosis: Diagnosis | null }

/** Asks for everything at once; what a node does not have, or does not show to this caller, is left out. */
export async function askInside (client: Client, state: State): Promise<Inside> {
  const look = async <T>(path: string): Promise<T | CliError> => {
    try {
      return await client.json<T>(path)
    } catch (error) {
      if (error instanceof CliError && error.status !== undefined) return error
      throw error
    }
  }
  const [diagnosis, store, staging, events] = await Promise.all([
    look<Diagnosis>('/v1/diagnostics/cluster'), look<StoreRoom>('/store/health'),
    look<Volume>('/store/storage'), look<EventLogHead>('/events?limit=1')
  ])
  const said = diagnosis instanceof CliError ? null : diagnosis
  return {
    diagnosis: said,
    checks: [
      ...checkModels(state),
      ...checkPressure(state),
      ...store instanceof CliError ? storeProblem(store) : [checkStore(store)],
      ...staging instanceof CliError ? [] : [checkVolume(staging)],
      ...events instanceof CliError ? [] : [checkEventLog(events)],
      ...said === null ? [] : checkDiagnosis(said)
    ]
  }
}

/** A cluster without a store, or a caller who may not see it, is no fault. */
function storeProblem ({ api }: CliError): Check[] {
  if (api?.reason !== 'store_unreachable') return []
  const remedy = api.details?.['remedy']
  const look = 'Look at the node that has the store: svc nodes'
  return [fail('store', api.message, typeof remedy === 'string' ? remedy : look)]
}
