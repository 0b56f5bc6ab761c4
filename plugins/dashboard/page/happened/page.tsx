import { Tabs } from '../ui/tabs.js'
import { Ask } from './ask.js'
import { Events } from './events-view.js'
import { Logs } from './logs.js'
import { Metrics } from './metrics-view.js'
import { Past } from './past.js'
import { Traces } from './traces.js'

const TABS = {
  events: { title: 'Events', component: Events },
  traces: { title: 'Traces', component: Traces },
  logs: { title: 'Logs', component: Logs },
  metrics: { title: 'Metrics', component: Metrics },
  past: { title: 'Earlier', component: Past },
  ask: { title: 'Ask', component: Ask }
}

export const HappenedPage = () => <Tabs page="happened" label="What happened" tabs={TABS} />
