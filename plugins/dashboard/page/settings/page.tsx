// What this node is set to, its plugins, its tokens, and the members of the cluster.
import { linkTo, route } from '../route.js'
import { Section } from '../ui/parts.js'
import { Members } from './members.js'
import { Plugins } from './plugins.js'
import { Tokens } from './tokens.js'
import { Values } from './values.js'
import type { ComponentType } from 'preact'

const TABS: Record<string, { title: string, component: ComponentType }> = {
  values: { title: 'Settings', component: Values },
  plugins: { title: 'Plugins', component: Plugins },
  tokens: { title: 'Tokens', component: Tokens },
  members: { title: 'Members', component: Members }
}

export function SettingsPage () {
  const [name = 'values'] = route.value.parts
  const { title, component: Shown } = TABS[name] ?? TABS['values']!
  return (
    <>
      <nav class="tabs" aria-label="Settings">
        {Object.entries(TABS).map(([to, { title: word }]) => (
          <a key={to} href={linkTo('settings', to)} aria-current={word === title ? 'page' : undefined}>
            {word}
          </a>
        ))}
      </nav>
      <Section title={title}><Shown /></Section>
    </>
  )
}
