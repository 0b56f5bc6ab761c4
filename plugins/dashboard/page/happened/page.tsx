import { route } from '../route.js'
import { Tabs } from '../ui/tabs.js'
import { Ask } from './ask.js'
import { Events } from './events-view.js'
import { Logs } from './logs.js'
import { Metrics } from './metrics-view.js'
import { Past } from './past.js'
import { Traces } from './traces.js'
import type { ComponentType } from 'preact'

const TABS: Record<string, { title: string, component: ComponentType }> = {
  events: { title: 'Events', component: Events },
  traces: { title: 'Traces', component: Traces },
  logs: { title: 'Logs', component: Logs },
  metrics: { title: 'Metrics', component: Metrics },
  past: { title: 'Earlier', component: Past },
  ask: { title: 'Ask', component: Ask }
}

export function HappenedPage () {
  const [name = 'events'] = route.value.parts
  const known = name in TABS ? name : 'events'
  const { component: Shown } = TABS[known]!
  return (
    <>
      <Tabs page="happened" label="What happened" tabs={TABS} shown={known} />
      <Shown />
    </>
  )
}
