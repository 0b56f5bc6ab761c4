// Nodes, instances and transfers of the shown state, computed once for all views.
import { computed } from '@preact/signals'
import { latest, state } from './link.js'
import { instancesOf, nodesOf, transfersOf } from './state.js'

export const nodes = computed(() => nodesOf(state.value))
export const instances = computed(() => instancesOf(state.value))
/** Includes completed transfers, which stay listed as long as their copy exists. */
export const allTransfers = computed(() => transfersOf(state.value))
export const transfers = computed(() => allTransfers.value.filter(({ status }) => status !== 'completed'))
export const waiting = computed(() => Object.entries(state.value.waitingInstances ?? {}))
/** The current nodes, even while the page shows a past state. */
export const nodesNow = computed(() => nodesOf(latest.value))
const names = computed(() => new Map([...nodesNow.value, ...nodes.value].map(({ id, name }) => [id, name])))

export const nameOf = (id: string): string => names.value.get(id) ?? id.slice(0, 8)
