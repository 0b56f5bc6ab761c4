// What this node is set to, its plugins, its tokens, and the members and devices of the cluster.
import { route } from '../route.js'
import { Section } from '../ui/parts.js'
import { Tabs } from '../ui/tabs.js'
import { Devices } from './devices.js'
import { Members } from './members.js'
import { Plugins } from './plugins.js'
import { Tokens } from './tokens.js'
import { Values } from './values.js'
import type { ComponentType } from 'preact'

const TABS: Record<string, { title: string, component: ComponentType }> = {
  values: { title: 'Settings', component: Values },
  plugins: { title: 'Plugins', component: Plugins },
  tokens: { title: 'Tokens', component: Tokens },
  members: { title: 'Members', component: Members },
  devices: { title: 'Devices', component: Devices }
}

export function SettingsPage () {
  const [name = 'values'] = route.value.parts
  const known = name in TABS ? name : 'values'
  const { title, component: Shown } = TABS[known]!
  return (
    <>
      <Tabs page="settings" label="Settings" tabs={TABS} shown={known} />
      <Section title={title}><Shown /></Section>
    </>
  )
}
